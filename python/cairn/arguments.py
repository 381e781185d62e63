"""The flags that every training script has."""

from __future__ import annotations

import argparse


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds --deepspeed and --deepspeed_config, and their old names, to an
    argparse parser."""
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    group.add_argument(
        "--deepspeed",
        default=False,
        action="store_true",
        help="Train with the engine. (A script's own switch: initialize() does not read it.)",
    )
    group.add_argument(
        "--deepspeed_config",
        default=None,
        type=str,
        help="DeepSpeed JSON configuration file.",
    )
    group.add_argument("--deepscale", default=False, action="store_true", help="Old name of --deepspeed.")
    group.add_argument("--deepscale_config", default=None, type=str, help="Old name of --deepspeed_config.")
    return parser
