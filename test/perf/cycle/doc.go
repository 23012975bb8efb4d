// SPDX-License-Identifier: Apache-2.0

// Package cycle measures scheduling cycles without an API server: the real
// scheduler of Kubernetes with a profile finds a node for one pod after the
// other, from the snapshot of the cache over PreFilter, Filter and Score to
// Reserve, and assumes the pod there. Nothing is bound.
//
// Every peer is a process of its own, so that the heap of one costs the others
// no garbage collection, and all of them have the same objects. The method is
// that of test/perf/bench.
package cycle
