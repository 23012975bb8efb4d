#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints a hash of what the suites use and `go test` does not see: the programs that they build and the files that these and other
# tools read. In BERTH_INPUTS it makes go test run a suite again when one of these changed, and only then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
{
	go list -deps -export -f '{{.ImportPath}} {{.BuildID}}' ./cmd/...
	find manifests hack docs cmd/berth-scheduler-gangs README.md -type f -print0 | sort -z | xargs -0 sha256sum
} | sha256sum | cut -c1-16
