// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"slices"

	"berth.dev/berth/apis/v1alpha1"
)

// PortRange is where ports are allocated that no one requested by number, both ends included.
type PortRange struct{ First, Last int32 }

// PortTakenError is the error for a port that belongs to another environment.
type PortTakenError struct {
	PortKey
	// Component requested it. Holder has it, "" if it must not be named.
	Component, Holder string
}

// Error returns the message.
func (e *PortTakenError) Error() string {
	message := fmt.Sprintf("%s: host port %d/%s is already allocated", e.Component, e.Number, e.Protocol)
	if e.Holder != "" {
		message += " to environment " + e.Holder
	}
	return message
}

// NoPortsError is the error for a range without a free port.
type NoPortsError struct{ PortRange }

// Error returns the message.
func (e *NoPortsError) Error() string {
	return fmt.Sprintf("no port from %d to %d is free", e.First, e.Last)
}

// AllocatePorts returns the ports from outside of a stack. A port that was requested by number is that one; one that was
// not keeps what was allocated for it before, else gets the lowest that is free. Taken has those of other environments, and
// who has them, "" if they must not be named. The result is in the order of the components.
func AllocatePorts(
	stack *v1alpha1.ApplicationStack, before []v1alpha1.AllocatedPort, taken map[PortKey]string, r PortRange,
) ([]v1alpha1.AllocatedPort, error) {
	a := &allocation{stack: stack, before: before, taken: taken, own: map[PortKey]bool{}, within: r}
	for _, p := range explicit(stack) {
		k := PortKey{p.HostPort, p.Protocol}
		if holder, is := taken[k]; is {
			return nil, &PortTakenError{k, p.Component, holder}
		}
		a.own[k] = true
	}
	out := requestedPorts(stack)
	for i := range out {
		p := &out[i]
		if p.HostPort == 0 {
			p.HostPort = a.number(p)
		}
		if p.HostPort == 0 {
			return nil, &NoPortsError{r}
		}
		a.own[PortKey{p.HostPort, p.Protocol}] = true
	}
	return out, nil
}

// allocation is what decides which port the next one gets.
type allocation struct {
	stack  *v1alpha1.ApplicationStack
	before []v1alpha1.AllocatedPort
	taken  map[PortKey]string
	// own are those of the stack: those with a hostPort, and those that were allocated before.
	own    map[PortKey]bool
	within PortRange
}

// number is what a port gets that no one requested by number, 0 if none is free.
func (a *allocation) number(p *v1alpha1.AllocatedPort) int32 {
	if n := Allocated(a.before, p); n > 0 && n >= a.within.First && n <= a.within.Last && a.free(n, p.Protocol) {
		return n
	}
	candidate := *p
	for n := a.within.First; n <= a.within.Last; n++ {
		candidate.HostPort = n
		if a.free(n, p.Protocol) && !kept(a.stack, a.before, candidate) {
			return n
		}
	}
	return 0
}

func (a *allocation) free(n int32, protocol v1alpha1.EnvironmentProtocol) bool {
	k := PortKey{n, protocol}
	_, is := a.taken[k]
	return !is && !a.own[k]
}

// Allocated is the port that was allocated for another one before, 0 if none was.
func Allocated(before []v1alpha1.AllocatedPort, p *v1alpha1.AllocatedPort) int32 {
	for _, b := range before {
		if b.Component == p.Component && b.ContainerPort == p.ContainerPort && b.Protocol == p.Protocol {
			return b.HostPort
		}
	}
	return 0
}

// kept reports whether a port will be taken by another of the same stack that keeps its own.
func kept(stack *v1alpha1.ApplicationStack, before []v1alpha1.AllocatedPort, a v1alpha1.AllocatedPort) bool {
	return slices.ContainsFunc(before, func(b v1alpha1.AllocatedPort) bool {
		if b.HostPort != a.HostPort || b.Protocol != a.Protocol || b.Component == a.Component && b.ContainerPort == a.ContainerPort {
			return false
		}
		b.HostPort = 0 // as it was requested
		return slices.Contains(requestedPorts(stack), b)
	})
}
