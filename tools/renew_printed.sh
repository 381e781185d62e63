#!/usr/bin/env bash
# Renews what is checked in and printed by the program: the reference pages, the
# tables in docs/coming-from-*.md, the answers in
# docs/planning.md, the jobs of the recipes. Tests compare them.
# usage: tools/renew_printed.sh FOLDER_OF_CAIRN   such as build/bin
set -euo pipefail
PATH=$(cd "$1" && pwd):$PATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cairn config docs > docs/configuration.md
cairn config keys > tests/config/keys.txt
cairn config flags > tests/config/flags.txt
for name in deepspeed megatron; do
  page=docs/coming-from-$name.md
  cairn config support "$name" > "$page.table"
  # The table takes the place of what stands between the two marks.
  awk -v table="$page.table" '
    /^<!-- cairn config support / { print; while ((getline line < table) > 0) print line; skip = 1 }
    /^<!-- end -->/ { skip = 0 }
    !skip { print }' "$page" > "$page.new"
  mv "$page.new" "$page"
  rm "$page.table"
done
bench/plan/open_questions.py "$(command -v cairn)" --write
recipes/write_jobs.sh
