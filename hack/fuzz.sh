#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the repository for the given time: hack/fuzz.sh 20s
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
time="${1:-20s}"
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "== $(dirname "$file") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")"
	done
done
