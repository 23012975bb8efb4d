#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a generated file is not what its generator writes, if a text that users
# read has a word that docs/glossary.md replaces, or if a go.mod file is not what
# `go mod tidy` makes of it. The generators write to a copy of the tree: suites that run
# meanwhile read their manifests in this one.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT

generated="apis manifests/crds manifests/chart/files manifests/chart/README.md docs/reference docs/architecture.md docs/rebalancing.md docs/monitoring.md test/wire"

# Not the files that are deleted and still in the index.
git ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar -c --null -T - | tar -x -C "$copy"
"$copy/hack/codegen/generate.sh"
status=0
for path in $generated; do
	diff -ru "$path" "$copy/$path" || status=1
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
