#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test target that needs no Docker, one after the other, and goes on after a failure. Prints a report of what ran: each
# target with its result, its time, how many packages it tested, of how many of them go test had kept the result, and its failed
# tests. Logs are in out/test-all. Exit code 1 if a target failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=(${TARGETS:-lint verify test-unit test-modules test-race test-integration test-race-integration test-faults test-scale test-karpenter test-evictions test-upgrade test-servers test-robustness test-web test-ui test-properties fuzz bench})
out=out/test-all
mkdir -p "$out"
report=()
status=0
for target in "${targets[@]}"; do
	echo "== make $target"
	start=$SECONDS
	if make "$target" >"$out/$target.log" 2>&1; then
		result=passed
	else
		result=FAILED
		status=1
	fi
	packages=$(grep -cE '^(ok|FAIL)[[:space:]]+[a-z]' "$out/$target.log")
	kept=$(grep -cE '^ok[[:space:]].*\(cached\)' "$out/$target.log")
	report+=("$(printf '%-24s %-7s %6d s %5d packages, %d kept' "$target" "$result" $((SECONDS - start)) "$packages" "$kept")")
	while read -r line; do report+=("    $line"); done < <(grep -E '^[[:space:]]*--- FAIL|^FAIL[[:space:]]+[a-z]' "$out/$target.log")
done
printf '\n%s on %s, %s processors\n' "$(git describe --match 'v*' --always --dirty)" "$(go version | cut -d' ' -f3-4)" "$(nproc)"
printf '%s\n' "${report[@]}"
echo "not run: test-kind (Docker), bench-full and its parts (hours, docs/performance.md), bench-plugins, bench-limits, bench-webhook"
exit $status
