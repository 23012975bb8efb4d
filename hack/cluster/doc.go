// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager) on the loopback
// interface, with nodes and pod life cycle simulated by KWOK.
//
// The demo, the integration tests, the benchmarks and `make cluster-up` use it. The commands are built from Go modules
// (see controlplane/go.mod, kwok/go.mod, karpenter/go.mod, lws/go.mod, jobset/go.mod and prometheus/go.mod) into a cache keyed by
// version; KUBEBUILDER_ASSETS is honoured when set.
// On Linux every process ends with the process that started it, even when that one is killed with SIGKILL.
//
// In every function here the context bounds the call only: what was started lives on until Stop, Kill or the end of the
// starting process.
package cluster
