#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes every generated file of apis/, manifests/, docs/reference/ and test/wire/, and the tables in docs/architecture.md,
# docs/rebalancing.md and docs/monitoring.md. The generators are pinned in hack/tools/go.mod and built by
# the go command, so this works offline once the modules are cached, and gives the same bytes every time.
# Old output needs no removal first: the generators skip it by its build tag and write over it.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root"

# A workspace or flags of the caller must not change what is built. With the flags of the Makefile, packages that others
# compiled before are not compiled again.
export GOWORK=off CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -tags=grpcnotrace'

header="$root/hack/codegen/header.go.txt"
tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/crds"

(cd hack/tools && go build -buildvcs=false -o "$tmp/bin/" \
	./configschema \
	./protos \
	google.golang.org/grpc/cmd/protoc-gen-go-grpc \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	k8s.io/code-generator/cmd/conversion-gen \
	k8s.io/code-generator/cmd/deepcopy-gen \
	k8s.io/code-generator/cmd/defaulter-gen \
	sigs.k8s.io/controller-tools/cmd/controller-gen)

# The generators read the packages of the module that they run in.
pushd apis >/dev/null
# Errors only: it warns that LabelValue and NodeLabelValue, both aliases of string, have comments of their own.
"$tmp/bin/deepcopy-gen" --legacy_stderr_threshold_behavior=false --stderrthreshold=ERROR \
	--go-header-file "$header" --output-file zz_generated.deepcopy.go \
	./v1alpha1 ./config ./config/v1
"$tmp/bin/defaulter-gen" --go-header-file "$header" --output-file zz_generated.defaults.go ./config/v1
"$tmp/bin/conversion-gen" --go-header-file "$header" --output-file zz_generated.conversion.go ./config/v1
"$tmp/bin/controller-gen" crd paths=./v1alpha1/... output:crd:dir="$tmp/crds"
popd >/dev/null

for crd in "$tmp"/crds/*.yaml; do
	sed -i '1i # SPDX-License-Identifier: Apache-2.0' "$crd"
done
mkdir -p manifests/crds
rm -f manifests/crds/berth.dev_*.yaml
cp "$tmp"/crds/*.yaml manifests/crds/

"$tmp/bin/protos" -plugins "$tmp/bin" -import apis/proto \
	mcp/orchestrator/v1/orchestrator.proto berth/mcp/v1/tolerant.proto \
	oaas/common/common.proto oaas/runtime/runtime.proto oaas/deployment/deployment.proto oaas/alias/alias.proto \
	oaas/health/health.proto berth/oaas/v1/tolerant.proto \
	scheduler/v1/scheduler.proto berth/backup/v1/backup.proto
"$tmp/bin/protos" -plugins "$tmp/bin" -import test/wire anyform/anyform.proto mapform/mapform.proto \
	oaasplan/oaasplan.proto oaashead/deployment.proto oaashead/health.proto \
	oaasclass/oaasclass.proto oaasunit/oaasunit.proto

# The chart's copies of manifests/: Helm reads nothing outside of a chart.
rm -rf manifests/chart/files
mkdir manifests/chart/files
(cd manifests && find crds rbac scheduler controller webhook records environments console templates monitoring -type f \
	! -name kustomization.yaml ! -name deployment.yaml ! -name namespace.yaml ! -path controller/config.yaml ! -path records/config.yaml ! -path environments/config.yaml ! -path console/config.yaml \
	-exec cp --parents {} chart/files/ \;)

# docs/reference: what the types, the reasons of events and the commands say of themselves.
rm -rf docs/reference
mkdir docs/reference
(cd hack/tools/reference && go build -buildvcs=false -o "$tmp/bin/" github.com/elastic/crd-ref-docs)
"$tmp/bin/crd-ref-docs" --source-path=apis --config=hack/codegen/api.yaml --renderer=markdown --max-depth=20 --log-level=ERROR \
	--output-path="$tmp/api.md" >/dev/null
{
	echo "# API"
	echo
	echo "<!-- make generate, from the types -->"
	# The type of this kind has another name, after its package. Aliases have no heading, and ]( in a pattern is no link.
	sed -e 1,2d -e 's/| `kind` _string_ | `Configuration` |/| `kind` _string_ | `ControllerConfiguration` |/' \
		-e 's/\[\(Node\)\?LabelValue\](#[a-z]*)/string/g' -e 's/\[ResourceCount\](#resourcecount)/integer/g' -e 's/\](\[/]\\([/g' "$tmp/api.md"
} >docs/reference/api.md
{
	echo "# Services"
	echo
	echo "<!-- make generate, from apis/proto -->"
	echo
	echo "The gRPC services, with all messages. [Services](../services.md) describes how to call them, also over REST."
	"$tmp/bin/protos" -docs -import apis/proto mcp/orchestrator/v1/orchestrator.proto oaas/deployment/deployment.proto \
		oaas/runtime/runtime.proto oaas/common/common.proto oaas/health/health.proto scheduler/v1/scheduler.proto \
		berth/backup/v1/backup.proto
} >docs/reference/services.md
(cd apis && "$tmp/bin/configschema" -package ./config/controller -title "Configuration of berth-controller") \
	>docs/reference/berth-controller-config.schema.json
go run ./hack/codegen/reference

# The page of the chart, of its values.
go run ./hack/codegen/chartvalues
