#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a generated file is not what its generator writes, if a text that users
# read has a word that docs/glossary.md replaces, or if a go.mod file
# is not what `go mod tidy` makes of it. Leaves the tree as it was.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT

generated="apis manifests/crds manifests/chart/files manifests/chart/README.md docs/reference docs/architecture.md docs/rebalancing.md docs/monitoring.md test/wire"
cp -r --parents $generated go.mod go.sum "$copy"

restore() {
	rm -rf manifests/crds manifests/chart/files docs/reference
	cp -r "$copy/." .
	rm -rf "$copy"
}
trap restore EXIT

hack/codegen/generate.sh
status=0
for path in $generated; do
	diff -ru "$copy/$path" "$path" || status=1
done
if [ $status -ne 0 ]; then
	echo "generated files are not up to date: run 'make generate' and commit the result" >&2
fi
if ! go run ./hack/words; then
	status=1
fi
for module in . apis apis/proto; do
	if ! go -C "$module" mod tidy -diff; then
		echo "$module/go.mod is not tidy: run 'go mod tidy' there" >&2
		status=1
	fi
done
exit $status
