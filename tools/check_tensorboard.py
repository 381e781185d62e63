#!/usr/bin/env python3
"""Opens a folder of event files with TensorBoard.

    check_tensorboard.py FOLDER EXPECTED.json

EXPECTED.json: {"scalars": {tag: {step: value}}, "texts": {tag: text}}. Where a
step was written twice, by a run that went back, the newer one counts. Ends with
77 where TensorBoard is missing.
"""
import json
import sys

try:
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator, TENSORS
    from tensorboard.util import tensor_util
except ImportError as missing:
    print(missing)
    sys.exit(77)


def main():
    folder, expected_file = sys.argv[1:]
    with open(expected_file) as file:
        expected = json.load(file)
    # As TensorBoard's pages load it, which turns scalars into tensors.
    events = EventAccumulator(folder, size_guidance={TENSORS: 0})
    events.Reload()
    problems = []

    def values_of(tag):
        if tag not in events.Tags()["tensors"]:
            problems.append(f"{tag}: is not there")
            return {}
        # Later files come later, so that newer points replace older ones.
        return {event.step: tensor_util.make_ndarray(event.tensor_proto) for event in events.Tensors(tag)}

    for tag, points in expected["scalars"].items():
        read = {str(step): float(value) for step, value in values_of(tag).items()}
        if read != points:
            problems.append(f"{tag}: {read} instead of {points}")
        elif events.SummaryMetadata(tag).plugin_data.plugin_name != "scalars":
            problems.append(f"{tag}: is no scalar")
    for tag, text in expected["texts"].items():
        for value in values_of(tag).values():
            if value.tolist() != [text.encode()]:
                problems.append(f"{tag}: {value} instead of {text}")
        if tag in events.Tags()["tensors"] and events.SummaryMetadata(tag).plugin_data.plugin_name != "text":
            problems.append(f"{tag}: is no text")
    sys.exit("\n".join(problems) or 0)


main()
