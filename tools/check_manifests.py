#!/usr/bin/env python3
"""Checks manifests for Kubernetes against the schemas of their kinds.

    check_manifests.py FILE…            PyTorchJobs and DeepSpeedJobs; - is standard input
    check_manifests.py --cairn PROGRAM  what `cairn launch --print-kubernetes` writes, with many flags; default:
                                        build/release/bin/cairn. Also checks that spoiled ones are refused

The kinds' schemas are tests/golden/kubernetes; pods and metadata are checked, strictly, with those of Kubernetes, from
PyPI's kubernetes-validate. Ends with 77 where that is missing.
"""
import argparse
import copy
import json
import re
import subprocess
import sys
from pathlib import Path

try:
    import jsonschema
    import kubernetes_validate
    import yaml
except ImportError as missing:
    MISSING = missing
else:
    MISSING = None

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "tests/golden/kubernetes"
LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
MANIFESTS = {
    "a PyTorchJob": ["--nnodes", "2", "--num_gpus", "8"],
    "a PyTorchJob of one node": ["--num_gpus", "1", "--cpus", "5", "--memory", "20Gi"],
    "a PyTorchJob with everything": [
        "--nnodes", "16", "--num_gpus", "8", "--job-name", "gpt-13b", "--namespace", "team", "--queue", "default",
        "--priority", "high", "--pvc", "megatron:/data", "--pvc", "more:/more", "--workdir", "/data", "--shm-size",
        "64Gi", "--env", "A=$(B) \"c\": #d", "--max-restarts", "3", "--master_port", "6000"],
    "a PyTorchJob that waits": ["--nnodes", "2", "--num_gpus", "4", "--debug"],
    "a DeepSpeedJob": ["--kind", "deepspeedjob", "--nnodes", "2", "--num_gpus", "8"],
    "a DeepSpeedJob with everything": [
        "--kind", "deepspeedjob", "--nnodes", "16", "--num_gpus", "8", "--job-name", "gpt-13b", "--namespace", "team",
        "--queue", "default", "--priority", "50", "--pvc", "megatron:/t9k/mnt", "--workdir", "/t9k/mnt",
        "--shm-size", "64Gi", "--env", "A=b", "--max-restarts", "3", "--master_port", "6000"],
    "a DeepSpeedJob that waits": ["--kind", "deepspeedjob", "--nnodes", "2", "--num_gpus", "8", "--debug"]}


class Wrong(Exception):
    pass


def references(schema, value):
    """What `value` has where the schema refers to another: pairs of that one's name and the part."""
    if "$ref" in schema:
        yield schema["$ref"], value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from references(schema.get("properties", {}).get(key, {}), part)


def without_references(schema):
    if isinstance(schema, dict):
        return {"type": "object"} if "$ref" in schema else {key: without_references(x) for key, x in schema.items()}
    return [without_references(x) for x in schema] if isinstance(schema, list) else schema


def check_part(kind, part):
    # Kubernetes' schemas are of whole objects.
    whole = {"PodTemplateSpec": {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {}, "template": part},
             "ObjectMeta": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": part}}[kind]
    try:
        kubernetes_validate.validate(whole, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Wrong(f"{kind}: {error}") from error


def check_pods(job):
    """What the operators and the API server demand beyond the schemas."""
    name = job["metadata"].get("name", "")
    pytorch = job["kind"] == "PyTorchJob"
    roles = job["spec"]["pytorchReplicaSpecs"] if pytorch else {"Worker": job["spec"]["worker"]}
    for role, each in roles.items():
        # Every pod has a service of its name.
        last = f"{name}-{role.lower()}-{each.get('replicas', 1) - 1}"
        if not LABEL.fullmatch(last):
            raise Wrong(f"{last} is no name for a pod and its service (RFC 1035)")
        pod = each["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            mounts = container.get("volumeMounts", [])
            if len({mount["mountPath"] for mount in mounts}) < len(mounts):
                raise Wrong("two volumes at one path")
            if unknown := {mount["name"] for mount in mounts} - volumes:
                raise Wrong(f"{unknown} are mounted and are no volumes")
        if pytorch and not any(c["name"] == "pytorch" and c.get("image") for c in pod["containers"]):
            raise Wrong("a PyTorchJob's container is called pytorch and has an image")


def check(text):
    """Raises Wrong unless the text is one valid job. Returns the job."""
    job = yaml.safe_load(text)
    path = SCHEMAS / f"{job.get('kind') if isinstance(job, dict) else None}.json"
    if not path.exists():
        raise Wrong(f"no kind of job that is known: {', '.join(sorted(x.stem for x in SCHEMAS.glob('*.json')))}")
    schema = json.loads(path.read_text())
    try:
        jsonschema.validate(job, without_references(schema))
    except jsonschema.ValidationError as error:
        raise Wrong(f"{error.json_path}: {error.message}") from error
    for kind, part in references(schema, job):
        check_part(kind, part)
    check_pods(job)
    return job


def spoiled(job):
    """The job with one mistake each."""
    def with_change(change):
        other = copy.deepcopy(job)
        change(other)
        return yaml.safe_dump(other)

    def pod(x):
        each = x["spec"].get("worker") or x["spec"]["pytorchReplicaSpecs"]["Master"]
        return each["template"]["spec"]
    yield "an unknown field", with_change(lambda x: x["spec"].update(replica=1))
    yield "an unknown field of the pod", with_change(lambda x: pod(x).update(volume=[]))
    yield "a number in an environment", with_change(lambda x: pod(x)["containers"][0].update(env=[{"name": "A", "value": 1}]))
    yield "a container without a name", with_change(lambda x: pod(x)["containers"][0].pop("name"))
    yield "a name that begins with a number", with_change(lambda x: x["metadata"].update(name="1a"))
    yield "a label that is a number", with_change(lambda x: x["metadata"].update(labels={"a": 1}))


def check_cairn(cairn):
    for name, flags in MANIFESTS.items():
        program = [] if "--debug" in flags else ["pretrain", "gpt", "--lr", "1.0e-4"]
        made = subprocess.run([cairn, "launch", "--print-kubernetes", "--container-image", "registry/cairn:1",
                               *flags, *program], capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(f"{name}: {made.stderr}")
        try:
            job = check(made.stdout)
        except Wrong as error:
            sys.exit(f"{name}: {error}\n{made.stdout}")
        for mistake, text in spoiled(job):
            try:
                check(text)
            except Wrong:
                continue
            sys.exit(f"{name} with {mistake} is not refused")
        print(f"{name}: as its schema says")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--cairn", default=str(ROOT / "build/release/bin/cairn"))
    options = parser.parse_args()
    if MISSING:
        print(MISSING)
        sys.exit(77)
    if not options.files:
        check_cairn(options.cairn)
    for file in options.files:
        try:
            check(sys.stdin.read() if file == "-" else Path(file).read_text())
        except (Wrong, OSError, yaml.YAMLError) as error:
            sys.exit(f"{file}: {error}")
        print(f"{file}: as its schema says")


if __name__ == "__main__":
    main()
