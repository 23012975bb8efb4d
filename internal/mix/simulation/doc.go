// SPDX-License-Identifier: Apache-2.0

// Package simulation determines whether a pod would be scheduled now, by running the in-tree PreFilter and Filter
// plugins of the scheduler's own profile on a snapshot of the cluster in which the pods it replaces are gone.
//
// The answer is the scheduler's for that moment, with three limitations for the caller. Plugins that are not in-tree,
// and extenders, do not run: Skipped lists them. Feature gates are those of this process, not of the scheduler. And a
// question reserves nothing: pending pods that need the same capacity do not count unless they are nominated.
package simulation
