// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/services/server"
)

const (
	maxPort = 65535
	// maxCores and maxMiB are more than there is of anything, and little enough that no arithmetic overflows.
	maxCores = 1_000_000
	maxMiB   = 1 << 40
)

// restartPolicies are the two names of each. The unspecified one is absent in the CRD.
var restartPolicies = map[schedulerv1.RestartPolicy]v1alpha1.EnvironmentRestartPolicy{
	schedulerv1.RestartPolicy_RESTART_POLICY_UNSPECIFIED:    "",
	schedulerv1.RestartPolicy_RESTART_POLICY_NO:             v1alpha1.RestartNo,
	schedulerv1.RestartPolicy_RESTART_POLICY_ALWAYS:         v1alpha1.RestartAlways,
	schedulerv1.RestartPolicy_RESTART_POLICY_ON_FAILURE:     v1alpha1.RestartOnFailure,
	schedulerv1.RestartPolicy_RESTART_POLICY_UNLESS_STOPPED: v1alpha1.RestartUnlessStopped,
}

func (r *reader) container(path string, in *schedulerv1.ContainerConfig) v1alpha1.EnvironmentContainer {
	if in == nil {
		r.refuse(path, "is missing")
		return v1alpha1.EnvironmentContainer{}
	}
	out := v1alpha1.EnvironmentContainer{
		Name: in.GetName(), Image: in.GetImage(), Command: in.GetCommand(), Args: in.GetArgs(),
		Ports: r.ports(path+".ports", in.GetPorts()), Env: server.Texts[v1alpha1.ConfigValue](in.GetEnvironmentVariables()),
		Resources:   r.resources(path+".resources", in.GetResources()),
		HealthCheck: r.healthCheck(path+".health_check", in.GetHealthCheck()),
	}
	if strings.TrimSpace(out.Image) == "" {
		r.refuse(path+".image", "is missing")
	}
	for _, v := range in.GetVolumes() {
		out.Volumes = append(out.Volumes, v1alpha1.EnvironmentVolume{
			Name: v.GetName(), MountPath: v.GetMountPath(), HostPath: v.GetHostPath(), ReadOnly: v.GetReadOnly(),
		})
	}
	policy, known := restartPolicies[in.GetRestartPolicy()]
	if !known {
		r.refuse(path+".restart_policy", "is %d, which is no RestartPolicy", in.GetRestartPolicy())
	}
	out.RestartPolicy = policy
	return out
}

func (r *reader) ports(path string, in []*schedulerv1.PortMapping) []v1alpha1.EnvironmentPort {
	var out []v1alpha1.EnvironmentPort
	seen := map[stack.PortKey]bool{}
	for i, p := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		if n := p.GetContainerPort(); n < 1 || n > maxPort {
			r.refuse(at+".container_port", "is %d, and must be from 1 to %d", n, maxPort)
		}
		if n := p.GetHostPort(); n < 0 || n > maxPort {
			r.refuse(at+".host_port", "is %d, and must be from 1 to %d, or 0 to have one allocated", n, maxPort)
		}
		protocol := v1alpha1.ProtocolTCP
		switch strings.ToLower(p.GetProtocol()) {
		case "", "tcp":
		case "udp":
			protocol = v1alpha1.ProtocolUDP
		default:
			r.refuse(at+".protocol", "is %q, and must be tcp or udp", p.GetProtocol())
		}
		k := stack.PortKey{Number: p.GetContainerPort(), Protocol: protocol}
		if seen[k] {
			r.refuse(at+".container_port", "is %d, which another port of this container has", k.Number)
		}
		seen[k] = true
		out = append(out, v1alpha1.EnvironmentPort{ContainerPort: k.Number, HostPort: p.GetHostPort(), Protocol: protocol})
	}
	return out
}

func (r *reader) resources(path string, in *schedulerv1.ResourceLimits) *v1alpha1.EnvironmentResources {
	if in == nil {
		return nil
	}
	return &v1alpha1.EnvironmentResources{
		CPU:    r.cores(path+".cpu_cores", in.GetCpuCores()),
		Memory: r.mebibytes(path+".memory_mb", in.GetMemoryMb()),
		Disk:   r.mebibytes(path+".disk_mb", in.GetDiskMb()),
	}
}

// cores reads cores as a quantity, rounded up to a thousandth. It uses the shortest text of the number, which is what
// the client wrote: 1.001 is not a thousandth more for what a double makes of it.
func (r *reader) cores(path string, n float64) string {
	// Not a number is not within any bounds.
	if !(n >= 0 && n <= maxCores) { // the other way round it would let it pass
		r.refuse(path, "is %v, and must be from 0 to %d", n, maxCores)
		return ""
	}
	if n == 0 {
		return ""
	}
	q, err := budget.ParseQuantity(strconv.FormatFloat(max(n, 0.001), 'f', -1, 64))
	if err != nil {
		r.refuse(path, "is %v, and must be a number of cores such as 0.5 or 2", n)
		return ""
	}
	return resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI).String()
}

// mebibytes reads what clients call megabytes as a quantity.
func (r *reader) mebibytes(path string, n int64) string {
	switch {
	case n < 0, n > maxMiB:
		r.refuse(path, "is %d, and must be from 0 to %d", n, int64(maxMiB))
		return ""
	case n == 0:
		return ""
	}
	return strconv.FormatInt(n, 10) + "Mi"
}

func (r *reader) healthCheck(path string, in *schedulerv1.HealthCheck) *v1alpha1.EnvironmentHealthCheck {
	if in == nil {
		return nil
	}
	if len(in.GetCommand()) == 0 {
		r.refuse(path+".command", "is missing")
	}
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"interval_seconds", in.GetIntervalSeconds()},
		{"timeout_seconds", in.GetTimeoutSeconds()},
		{"retries", in.GetRetries()},
		{"start_period_seconds", in.GetStartPeriodSeconds()},
	} {
		if n.value < 0 {
			r.refuse(path+"."+n.name, "is %d, and must not be negative", n.value)
		}
	}
	return &v1alpha1.EnvironmentHealthCheck{
		Command: in.GetCommand(), IntervalSeconds: in.GetIntervalSeconds(), TimeoutSeconds: in.GetTimeoutSeconds(),
		Retries: in.GetRetries(), StartPeriodSeconds: in.GetStartPeriodSeconds(),
	}
}

// coresOf is a quantity in cores, 0 if it is none. Who wrote it with kubectl may have requested less than a thousandth.
func coresOf(quantity string) float64 {
	q, err := budget.ParseQuantity(quantity)
	if err != nil {
		return 0
	}
	return float64(q.MilliValue()) / 1000
}

// mebibytesOf is a quantity in MiB, rounded up, 0 if it is none.
func mebibytesOf(quantity string) int64 {
	q, err := budget.ParseQuantity(quantity)
	if err != nil {
		return 0
	}
	const mebibyte = 1 << 20
	n := q.Value()
	if n > math.MaxInt64-mebibyte {
		return math.MaxInt64 / mebibyte
	}
	return (n + mebibyte - 1) / mebibyte
}
