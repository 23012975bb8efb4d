// SPDX-License-Identifier: Apache-2.0

// Package capacitymix is the scheduler plugin that places every replica of a
// workload on the capacity type its mix requests.
//
// A pod claims the lowest free slot of its group when it is first considered;
// the slot fixes its type. Filter keeps it to nodes of that type; where they
// have no room, PostFilter moves it from a sample of them to all of them and
// then, if the mix allows it, to the other type. Bind writes the slot on the
// pod in the Binding itself, so that no call is made that the stock scheduler
// does not make.
package capacitymix
