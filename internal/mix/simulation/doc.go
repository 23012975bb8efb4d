// SPDX-License-Identifier: Apache-2.0

// Package simulation answers whether a pod would find a node now, by running the
// in-tree PreFilter and Filter plugins of the scheduler's own profile on a
// snapshot of the cluster in which the pods it replaces are gone.
//
// The answer is the scheduler's for that moment, with three limits that the
// caller has to know. Plugins that are not in-tree, and extenders, are not run:
// they are named in Skipped. Feature gates are this process's, not those that
// the scheduler was started with. And nothing is reserved by asking: pods that
// wait for the same room are not counted unless they are nominated to it.
package simulation
