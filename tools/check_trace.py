#!/usr/bin/env python3
"""Opens a trace of --profile with TensorBoard's profiler plugin and prints its view of modules.

    check_trace.py TRACE.pt.trace.json [MODULE…]   fails unless the view has these, such as decoder.layers.0.attention

Needs PyPI's torch-tb-profiler, pandas and tensorboard. Ends with 77 where they are missing.
"""
import json
import sys

try:
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.module_op import aggegate_module_view
except ImportError as missing:
    RunProfileData = None
    MISSING = missing


def walk(modules, depth=0):
    for module in modules or ():
        yield depth, module
        yield from walk(module.children, depth + 1)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if RunProfileData is None:
        print(MISSING)
        sys.exit(77)
    with open(sys.argv[1]) as file:
        trace = json.load(file)
    run = RunProfileData.from_json("worker", "span", trace)
    found = {}
    for depth, module in walk(aggegate_module_view(run.tid2tree, run.events)):
        if module.name not in found:
            print(f"{'  ' * depth}{module.name}: {module.occurences} times, {module.operators} operators, "
                  f"{module.host_duration / 1e3:.2f} ms")
        found[module.name] = module
    if lacking := set(sys.argv[2:]) - set(found):
        sys.exit(f"the view of modules lacks {', '.join(sorted(lacking))}")
    if not run.op_list_groupby_name:
        sys.exit("the plugin finds no operators")
    flops = {}
    for event in trace["traceEvents"]:
        about = event.get("args", {})
        if "FLOPs" in about:
            module = about.get("Module", "")
            flops[module] = flops.get(module, 0) + about["FLOPs"]
    for module, count in sorted(flops.items()):
        print(f"{module or 'outside of modules'}: {count} FLOPs")


if __name__ == "__main__":
    main()
