#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the golangci-lint that hack/lint/go.mod pins, built once per version.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}/lint"
key="$(cat "$root/hack/lint/go.mod" "$root/hack/lint/go.sum" <(go version) | sha256sum | cut -c1-16)"
bin="$cache/golangci-lint-$key"

if [ ! -x "$bin" ]; then
	echo "building golangci-lint (once; takes a few minutes)" >&2
	mkdir -p "$cache"
	(cd "$root/hack/lint" && CGO_ENABLED=0 go build -buildvcs=false -o "$bin.new.$$" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	mv "$bin.new.$$" "$bin"
fi

cd "$root"
# A run in another checkout is no reason to fail.
case "${1:-}" in run) set -- run --allow-parallel-runners "${@:2}" ;; esac
# A run has the packages of one module, and apis is a module of its own.
status=0
case " $* " in
*" ./apis/"*) cd apis && set -- "${@/#.\/apis\//./}" ;;
*" ./... "*) (cd apis && "$bin" "$@") || status=$? ;;
esac
"$bin" "$@" || status=$?
exit $status
