// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/generators"
)

func portsOf(hosts ...int32) *v1alpha1.ApplicationStack {
	c := v1alpha1.EnvironmentContainer{Image: "x"}
	for i, h := range hosts {
		c.Ports = append(c.Ports, v1alpha1.EnvironmentPort{ContainerPort: int32(i + 1), HostPort: h})
	}
	return &v1alpha1.ApplicationStack{Backend: &v1alpha1.BackendComponent{Container: c}}
}

func hosts(list []v1alpha1.AllocatedPort) (out []int32) {
	for _, p := range list {
		out = append(out, p.HostPort)
	}
	return out
}

func TestAllocatePorts(t *testing.T) {
	tcpPort := func(n int32) PortKey { return PortKey{n, v1alpha1.ProtocolTCP} }
	before := func(container, host int32) v1alpha1.AllocatedPort {
		return v1alpha1.AllocatedPort{Component: Backend, ContainerPort: container, HostPort: host, Protocol: v1alpha1.ProtocolTCP}
	}
	for name, c := range map[string]struct {
		stack  *v1alpha1.ApplicationStack
		before []v1alpha1.AllocatedPort
		taken  map[PortKey]string
		want   []int32
	}{
		"the lowest that are free":                   {portsOf(0, 0), nil, map[PortKey]string{tcpPort(100): "x"}, []int32{101, 102}},
		"the number that is requested":               {portsOf(0, 100, 7), nil, nil, []int32{101, 100, 7}},
		"the other protocol takes nothing":           {portsOf(0), nil, map[PortKey]string{{100, v1alpha1.ProtocolUDP}: "x"}, []int32{100}},
		"what it had":                                {portsOf(0, 0), []v1alpha1.AllocatedPort{before(2, 100)}, nil, []int32{101, 100}},
		"not what it had if another has it now":      {portsOf(0), []v1alpha1.AllocatedPort{before(1, 101)}, map[PortKey]string{tcpPort(101): "x"}, []int32{100}},
		"not the former one if a number is set":      {portsOf(0, 101), []v1alpha1.AllocatedPort{before(1, 101)}, nil, []int32{100, 101}},
		"not what it had if that is out of range":    {portsOf(0), []v1alpha1.AllocatedPort{before(1, 8080)}, nil, []int32{100}},
		"what a port had that is not there any more": {portsOf(0), []v1alpha1.AllocatedPort{before(9, 100)}, nil, []int32{100}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := AllocatePorts(c.stack, c.before, c.taken, PortRange{100, 103})
			require.NoError(t, err)
			assert.Equal(t, c.want, hosts(out))
		})
	}
}

// A port that another has is refused, and its holder is named.
func TestAPortThatIsTaken(t *testing.T) {
	_, err := AllocatePorts(portsOf(0, 8080), nil, map[PortKey]string{{8080, v1alpha1.ProtocolTCP}: "shop-1"}, PortRange{100, 103})
	taken, is := errors.AsType[*PortTakenError](err)
	require.True(t, is, "%v", err)
	assert.Equal(t, PortTakenError{PortKey{8080, v1alpha1.ProtocolTCP}, Backend, "shop-1"}, *taken)
	assert.Equal(t, "backend: host port 8080/TCP is already allocated to environment shop-1", err.Error())
	taken.Holder = ""
	assert.Equal(t, "backend: host port 8080/TCP is already allocated", taken.Error())
}

// When none is left, the range is named; a single one that is left is found.
func TestNoPortIsLeft(t *testing.T) {
	taken := map[PortKey]string{{100, v1alpha1.ProtocolTCP}: "x", {101, v1alpha1.ProtocolTCP}: "y"}
	out, err := AllocatePorts(portsOf(0), nil, taken, PortRange{100, 102})
	require.NoError(t, err)
	assert.Equal(t, []int32{102}, hosts(out), "the last of the range is one of it")
	_, err = AllocatePorts(portsOf(0, 0), nil, taken, PortRange{100, 102})
	none, is := errors.AsType[*NoPortsError](err)
	require.True(t, is, "%v", err)
	assert.Equal(t, PortRange{100, 102}, none.PortRange)
	assert.Equal(t, "no port from 100 to 102 is free", err.Error())
	_, err = AllocatePorts(portsOf(8080), nil, taken, PortRange{100, 99})
	assert.NoError(t, err, "a port with a number needs no range")
}

// No one gets what another has or two the same, a port with a number has it, an allocated one stays,
// and a range that is large enough is never exhausted.
func TestAllocatedPortsAreDistinct(t *testing.T) {
	r := PortRange{100, 130}
	rapid.Check(t, func(t *rapid.T) {
		first, second := generators.Stack(t), generators.Stack(t)
		taken := rapid.MapOfN(rapid.Custom(func(t *rapid.T) PortKey {
			return PortKey{rapid.Int32Range(100, 115).Draw(t, "taken"), rapid.SampledFrom([]v1alpha1.EnvironmentProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP}).Draw(t, "protocol")}
		}), rapid.Just("other"), 0, 10).Draw(t, "taken")
		// A port requested by number may be one of the range, and then one of the other's.
		for _, s := range []*v1alpha1.ApplicationStack{&first, &second} {
			for _, c := range Components(s) {
				for i := range c.Container.Ports {
					if p := &c.Container.Ports[i]; p.HostPort > 0 {
						p.HostPort = p.HostPort - 8000 + 105
					}
				}
			}
		}
		var before []v1alpha1.AllocatedPort
		for round, s := range []*v1alpha1.ApplicationStack{&first, &second, &second} {
			out, err := AllocatePorts(s, before, taken, r)
			if held, is := errors.AsType[*PortTakenError](err); is {
				assert.Equal(t, "other", held.Holder)
				assert.Contains(t, taken, held.PortKey)
				return
			}
			require.NoError(t, err)
			checkPorts(t, s, out, taken, r)
			if round == 2 {
				assert.Equal(t, before, out, "the same spec has the same ports")
			}
			if round == 1 {
				checkKept(t, s, before, out, taken, r)
			}
			before = out
		}
	})
}

func checkPorts(t *rapid.T, s *v1alpha1.ApplicationStack, out []v1alpha1.AllocatedPort, taken map[PortKey]string, r PortRange) {
	seen, n := map[PortKey]bool{}, 0
	for _, c := range Components(s) {
		for i := range c.Container.Ports {
			p, got := &c.Container.Ports[i], out[n]
			n++
			assert.Equal(t, v1alpha1.AllocatedPort{Component: c.Name, ContainerPort: p.ContainerPort, HostPort: got.HostPort, Protocol: ProtocolOf(p)}, got, "in the order of the components")
			k := PortKey{got.HostPort, got.Protocol}
			assert.NotContains(t, taken, k)
			assert.NotContains(t, seen, k)
			seen[k] = true
			if p.HostPort > 0 {
				assert.Equal(t, p.HostPort, got.HostPort)
			} else {
				assert.True(t, got.HostPort >= r.First && got.HostPort <= r.Last)
			}
		}
	}
	assert.Len(t, out, n)
}

func checkKept(t *rapid.T, s *v1alpha1.ApplicationStack, before, after []v1alpha1.AllocatedPort, taken map[PortKey]string, r PortRange) {
	asked := map[PortKey]bool{}
	for _, p := range explicit(s) {
		asked[PortKey{p.HostPort, p.Protocol}] = true
	}
	for i := range after {
		a := &after[i]
		h := Allocated(before, a)
		k := PortKey{h, a.Protocol}
		if c := Find(Components(s), a.Component); h == 0 || h < r.First || h > r.Last || asked[k] || taken[k] != "" || byNumber(c, a) {
			continue
		}
		assert.Equal(t, h, a.HostPort, "what was given stays")
	}
}

func byNumber(c *Component, a *v1alpha1.AllocatedPort) bool {
	for i := range c.Container.Ports {
		if p := &c.Container.Ports[i]; p.ContainerPort == a.ContainerPort && ProtocolOf(p) == a.Protocol {
			return p.HostPort > 0
		}
	}
	return false
}

// An environment has what was allocated for it, and what it requests and has not got yet.
func TestHostPorts(t *testing.T) {
	e := builders.CompleteEnvironment()
	e.Status.Ports = []v1alpha1.AllocatedPort{{Component: Backend, ContainerPort: 3000, HostPort: 30001, Protocol: v1alpha1.ProtocolTCP}}
	assert.Equal(t, []v1alpha1.AllocatedPort{
		{Component: Frontend, ContainerPort: 80, HostPort: 8080, Protocol: v1alpha1.ProtocolTCP},
		{Component: Backend, ContainerPort: 3000, HostPort: 30001, Protocol: v1alpha1.ProtocolTCP},
	}, HostPorts(e))
	assert.Empty(t, HostPorts(&v1alpha1.Environment{}))
}
