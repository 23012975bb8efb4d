#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the pinned versions, or changes the patch version of Kubernetes in every file that has it:
#
#   hack/versions.sh            # what is pinned, and where
#   hack/versions.sh v1.37.3    # raise Kubernetes; then run `make generate` and the tests
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# pinned FILE MODULE: the version of a module in a go.mod file.
pinned() { sed -n "s,^\(require \|\t\)$2 \(v[^ ]*\).*,\2,p" "$1"; }

list() {
	while read -r what file module; do
		printf '%-36s %-12s %s\n' "$what" "$(pinned "$file" "$module")" "$file"
	done <<-END
		Kubernetes go.mod k8s.io/kubernetes
		staging-modules go.mod k8s.io/client-go
		controller-runtime go.mod sigs.k8s.io/controller-runtime
		controller-tools hack/tools/go.mod sigs.k8s.io/controller-tools
		scheduler-plugins cmd/berth-scheduler-gangs/go.mod sigs.k8s.io/scheduler-plugins
		control-plane hack/cluster/controlplane/go.mod k8s.io/kubernetes
		etcd hack/cluster/controlplane/go.mod go.etcd.io/etcd/server/v3
		older-servers hack/cluster/server-1.36/go.mod k8s.io/kubernetes
		older-servers hack/cluster/server-1.35/go.mod k8s.io/kubernetes
		eviction-controllers hack/cluster/evictions/go.mod k8s.io/kubernetes
		Helm hack/cluster/helm/go.mod helm.sh/helm/v3
		KWOK hack/cluster/kwok/go.mod sigs.k8s.io/kwok
		Karpenter hack/cluster/karpenter/go.mod sigs.k8s.io/karpenter
		LeaderWorkerSet hack/cluster/lws/go.mod sigs.k8s.io/lws
		JobSet hack/cluster/jobset/go.mod sigs.k8s.io/jobset
		Prometheus hack/cluster/prometheus/go.mod github.com/prometheus/prometheus
		kind hack/cluster/kind/go.mod sigs.k8s.io/kind
		golangci-lint hack/lint/go.mod github.com/golangci/golangci-lint/v2
	END
	printf '%-36s %-12s %s\n' metrics-server "$(sed -n 's/^version=//p' hack/kind/metrics-server/install)" hack/kind/metrics-server/install
	printf '%-36s %-12s %s\n' Go "$(sed -n 's/^go //p' go.mod)" go.mod
	echo "The kind node image has the Kubernetes of go.mod, with the versions that kubeadm and kind name: hack/kind/node-image/build"
}

raise() {
	local from to=$1
	from=$(pinned go.mod k8s.io/kubernetes)
	if [[ ! $to =~ ^v1\.[0-9]+\.[0-9]+$ || ${to%.*} != "${from%.*}" ]]; then
		echo "want a patch version of ${from%.*}, not $to: another minor version needs more than an edit (docs/compatibility.md)" >&2
		exit 2
	fi
	local mods
	mods=$(git ls-files '*go.mod' | xargs grep -l "v0${from#v1}\$\|v0${from#v1} \|$from")
	# Staging modules have the version with a major version of 0.
	sed -i -E "s,(k8s\.io/[a-z-]+) v0${from#v1}( |$),\1 v0${to#v1}\2,; s,(k8s\.io/kubernetes) $from( |$),\1 $to\2," $mods
	sed -i "s,$from,$to,g" hack/cluster/build.go docs/kubectl-berth.md
	sed -i "s,| ${from#v} |,| ${to#v} |," docs/compatibility.md
	for mod in $mods; do
		(cd "$(dirname "$mod")" && GOWORK=off GOFLAGS=-mod=mod go mod tidy)
	done
	git --no-pager diff --stat
}

case $# in
0) list ;;
1) raise "$1" ;;
*) sed -n '4,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
