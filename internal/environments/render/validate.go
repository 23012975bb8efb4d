// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// maxService is how long the name of an additional service may be: names of its objects are made of it.
const maxService = 52

// Validate returns everything that is wrong with a spec, as far as that needs no cluster. What the CRD's own
// rules refuse is in it too, but for lengths and numbers of entries, so that callers get all errors at once.
func Validate(spec *v1alpha1.EnvironmentSpec) field.ErrorList {
	path := field.NewPath("spec", "stack")
	stack := &spec.Stack
	var all field.ErrorList
	if len(Components(stack)) == 0 {
		all = append(all, field.Required(path, "must have a component: frontend, backend, database or one of additionalServices"))
	}
	if d := stack.Database; d != nil {
		at := path.Child("database")
		all = append(all, validateContainer(at.Child("container"), &d.Container)...)
		all = append(all, validateDatabase(at, d)...)
	}
	if b := stack.Backend; b != nil {
		at := path.Child("backend")
		all = append(all, validateContainer(at.Child("container"), &b.Container)...)
		all = append(all, validateReplicas(at.Child("replicas"), b.Replicas)...)
		all = append(all, validateAutoscaling(at.Child("autoscaling"), b.Autoscaling, &b.Container)...)
		all = append(all, validateSecret(at.Child("secretRef"), b.SecretRef)...)
	}
	if f := stack.Frontend; f != nil {
		at := path.Child("frontend")
		all = append(all, validateContainer(at.Child("container"), &f.Container)...)
		all = append(all, validateReplicas(at.Child("replicas"), f.Replicas)...)
		all = append(all, validateAutoscaling(at.Child("autoscaling"), f.Autoscaling, &f.Container)...)
		all = append(all, validateDomains(at.Child("domains"), f.Domains)...)
		isTCP := func(p v1alpha1.EnvironmentPort) bool { return p.Protocol != v1alpha1.ProtocolUDP }
		if len(f.Domains) > 0 && !slices.ContainsFunc(f.Container.Ports, isTCP) {
			all = append(all, field.Required(at.Child("container", "ports"), "domains need a TCP port to lead to"))
		}
	}
	all = append(all, validateAdditional(path.Child("additionalServices"), stack.AdditionalServices)...)
	all = append(all, validateHostPorts(path, stack)...)
	all = append(all, validateClashes(path, spec)...)
	all = append(all, validateNetwork(field.NewPath("spec", "network"), spec.Network)...)
	all = append(all, validateWithin(field.NewPath("spec", "startTimeoutSeconds"), spec.StartTimeoutSeconds, 10, 86400)...)
	all = append(all, validateWithin(field.NewPath("spec", "cleanUpFailedSeconds"), spec.CleanUpFailedSeconds, 0, 604800)...)
	return append(all, validatePlacement(field.NewPath("spec", "placement"), spec.Placement)...)
}

func validateAdditional(path *field.Path, list []v1alpha1.AdditionalService) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i := range list {
		s := &list[i]
		at := path.Index(i)
		switch {
		case seen[s.Name]:
			all = append(all, field.Duplicate(at.Child("name"), s.Name))
		case s.Name == Frontend || s.Name == Backend || s.Name == Database:
			all = append(all, field.Invalid(at.Child("name"), s.Name, "is the name of a component that every stack may have"))
		case len(s.Name) > maxService:
			all = append(all, field.TooLong(at.Child("name"), s.Name, maxService))
		default:
			all = append(all, invalid(at.Child("name"), s.Name, validation.IsDNS1035Label)...) // as the name of a Service
		}
		seen[s.Name] = true
		all = append(all, validateContainer(at.Child("container"), &s.Container)...)
		all = append(all, validateReplicas(at.Child("replicas"), s.Replicas)...)
		all = append(all, validateAutoscaling(at.Child("autoscaling"), s.Autoscaling, &s.Container)...)
	}
	return all
}

func validateDomains(path *field.Path, domains []string) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, d := range domains {
		if seen[d] {
			all = append(all, field.Duplicate(path.Index(i), d))
		}
		seen[d] = true
		check := validation.IsDNS1123Subdomain
		if strings.HasPrefix(d, "*.") {
			check = validation.IsWildcardDNS1123Subdomain
		}
		all = append(all, invalid(path.Index(i), d, check)...)
	}
	return all
}

// invalid has an error for each message of a check.
func invalid(path *field.Path, value string, check func(string) []string) (all field.ErrorList) {
	for _, message := range check(value) {
		all = append(all, field.Invalid(path, value, message))
	}
	return all
}

func validateContainer(path *field.Path, c *v1alpha1.EnvironmentContainer) field.ErrorList {
	var all field.ErrorList
	switch {
	case c.Image == "":
		all = append(all, field.Required(path.Child("image"), "must name an image"))
	case strings.ContainsFunc(c.Image, func(r rune) bool { return r <= ' ' }):
		all = append(all, field.Invalid(path.Child("image"), c.Image, "must not have blanks"))
	}
	all = append(all, validatePorts(path.Child("ports"), c.Ports)...)
	all = append(all, validateVolumes(path.Child("volumes"), c.Volumes)...)
	for _, name := range sorted(c.Env) {
		all = append(all, invalid(path.Child("env").Key(name), name, validation.IsEnvVarName)...)
		if strings.ContainsRune(string(c.Env[name]), 0) {
			all = append(all, field.Invalid(path.Child("env").Key(name), c.Env[name], "must not have a zero byte"))
		}
	}
	if r := c.Resources; r != nil {
		for _, q := range []struct{ name, value string }{{"cpu", r.CPU}, {"memory", r.Memory}, {"disk", r.Disk}} {
			all = append(all, validateQuantity(path.Child("resources", q.name), q.value)...)
		}
	}
	if h := c.HealthCheck; h != nil {
		all = append(all, validateHealthCheck(path.Child("healthCheck"), h)...)
	}
	all = append(all, validateSecurity(path.Child("securityContext"), c.SecurityContext)...)
	policies := []v1alpha1.EnvironmentRestartPolicy{
		v1alpha1.RestartAlways, v1alpha1.RestartNo, v1alpha1.RestartOnFailure, v1alpha1.RestartUnlessStopped,
	}
	if c.RestartPolicy != "" && !slices.Contains(policies, c.RestartPolicy) {
		all = append(all, field.NotSupported(path.Child("restartPolicy"), c.RestartPolicy, policies))
	}
	return all
}

func validatePorts(path *field.Path, ports []v1alpha1.EnvironmentPort) field.ErrorList {
	var all field.ErrorList
	const most = 65535
	seen := map[PortKey]bool{}
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.ContainerPort < 1 || p.ContainerPort > most {
			all = append(all, field.Invalid(at.Child("containerPort"), p.ContainerPort, "must be from 1 to 65535"))
		}
		if p.HostPort < 0 || p.HostPort > most {
			all = append(all, field.Invalid(at.Child("hostPort"), p.HostPort, "must be from 1 to 65535, or 0 to have one allocated"))
		}
		protocol := protocolOf(p)
		if protocol != v1alpha1.ProtocolTCP && protocol != v1alpha1.ProtocolUDP {
			protocols := []v1alpha1.EnvironmentProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP}
			all = append(all, field.NotSupported(at.Child("protocol"), p.Protocol, protocols))
		}
		k := PortKey{p.ContainerPort, protocol}
		if seen[k] {
			all = append(all, field.Duplicate(at.Child("containerPort"), p.ContainerPort))
		}
		seen[k] = true
	}
	return all
}

// validateHostPorts refuses a host port that occurs twice within the environment.
func validateHostPorts(path *field.Path, stack *v1alpha1.ApplicationStack) field.ErrorList {
	var all field.ErrorList
	seen := map[PortKey]bool{}
	for _, c := range Components(stack) {
		at := containerPath(path, stack, c.Name)
		for i := range c.Container.Ports {
			p := &c.Container.Ports[i]
			k := PortKey{p.HostPort, protocolOf(p)}
			if p.HostPort > 0 && seen[k] {
				all = append(all, field.Duplicate(at.Child("ports").Index(i).Child("hostPort"), p.HostPort))
			}
			seen[k] = true
		}
	}
	return all
}

// containerPath is the path of a component's container in the spec.
func containerPath(path *field.Path, stack *v1alpha1.ApplicationStack, name string) *field.Path {
	for i := range stack.AdditionalServices {
		if stack.AdditionalServices[i].Name == name {
			return path.Child("additionalServices").Index(i).Child("container")
		}
	}
	return path.Child(name, "container")
}

var volumeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

func validateVolumes(path *field.Path, volumes []v1alpha1.EnvironmentVolume) field.ErrorList {
	var all field.ErrorList
	paths, names := map[string]bool{}, map[string]bool{}
	for i := range volumes {
		v, at := &volumes[i], path.Index(i)
		if v.MountPath == "" {
			all = append(all, field.Required(at.Child("mountPath"), "must say where the container sees it"))
		} else {
			all = append(all, validatePath(at.Child("mountPath"), v.MountPath)...)
		}
		mountPath := pathpkg.Clean(v.MountPath) // "/a" and "/a/" are one
		if v.MountPath != "" && paths[mountPath] {
			all = append(all, field.Duplicate(at.Child("mountPath"), v.MountPath))
		}
		if v.Name != "" && !volumeName.MatchString(v.Name) {
			all = append(all, field.Invalid(at.Child("name"), v.Name,
				"must be at most 40 lower-case letters, digits and '-' that begin and end with a letter or digit"))
		}
		if v.Name != "" && names[v.Name] {
			all = append(all, field.Duplicate(at.Child("name"), v.Name))
		}
		if v.HostPath != "" {
			if v.Ephemeral {
				all = append(all, field.Invalid(at.Child("ephemeral"), v.Ephemeral, "must be false with hostPath"))
			}
			all = append(all, validatePath(at.Child("hostPath"), v.HostPath)...)
		}
		paths[mountPath], names[v.Name] = true, true
	}
	return all
}

// validatePath takes absolute paths that do not climb.
func validatePath(path *field.Path, value string) field.ErrorList {
	if !strings.HasPrefix(value, "/") || pathpkg.Clean(value) == "/" || strings.Contains(value, ":") ||
		slices.Contains(strings.Split(value, "/"), "..") {
		return field.ErrorList{field.Invalid(path, value, "must be an absolute path without ':' and '..'")}
	}
	return nil
}

func validateQuantity(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return nil
	}
	q, err := budget.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, value, "must be a quantity above 0")}
	}
	return nil
}

func validateHealthCheck(path *field.Path, h *v1alpha1.EnvironmentHealthCheck) field.ErrorList {
	all := validateCheck(path, h)
	for _, n := range []struct {
		name  string
		value int32
		most  int32
	}{
		{"intervalSeconds", h.IntervalSeconds, 86400},
		{"timeoutSeconds", h.TimeoutSeconds, 86400},
		{"retries", h.Retries, 1000},
		{"startPeriodSeconds", h.StartPeriodSeconds, 86400},
	} {
		if n.value < 0 || n.value > n.most {
			all = append(all, field.Invalid(path.Child(n.name), n.value, fmt.Sprintf("must be from 0 to %d", n.most)))
		}
	}
	return all
}

// validateCheck takes exactly one way to check.
func validateCheck(path *field.Path, h *v1alpha1.EnvironmentHealthCheck) field.ErrorList {
	ways := map[string]bool{
		"command": len(h.Command) > 0, "httpGet": h.HTTPGet != nil, "tcpSocket": h.TCPSocket != nil, "grpc": h.GRPC != nil,
	}
	maps.DeleteFunc(ways, func(_ string, set bool) bool { return !set })
	if len(ways) == 0 {
		return field.ErrorList{field.Required(path.Child("command"), "or httpGet, tcpSocket or grpc must be set")}
	}
	if len(ways) > 1 {
		set := slices.Sorted(maps.Keys(ways))
		return field.ErrorList{
			field.Invalid(path, strings.Join(set, ", "), "must have exactly one of command, httpGet, tcpSocket and grpc"),
		}
	}
	switch {
	case h.HTTPGet != nil:
		return validateHTTPGet(path.Child("httpGet"), h.HTTPGet)
	case h.TCPSocket != nil:
		return validateCheckPort(path.Child("tcpSocket", "port"), h.TCPSocket.Port)
	case h.GRPC != nil:
		return validateCheckPort(path.Child("grpc", "port"), h.GRPC.Port)
	}
	if h.Command[0] == "CMD-SHELL" && len(h.Command) != 2 || len(h.Command) == 1 && h.Command[0] == "CMD" {
		return field.ErrorList{field.Invalid(path.Child("command"), h.Command, "must have a command after "+h.Command[0])}
	}
	return nil
}

func validateHTTPGet(path *field.Path, g *v1alpha1.EnvironmentHTTPGet) field.ErrorList {
	all := validateCheckPort(path.Child("port"), g.Port)
	if g.Path != "" && !strings.HasPrefix(g.Path, "/") {
		all = append(all, field.Invalid(path.Child("path"), g.Path, "must begin with '/'"))
	}
	if g.Scheme != "" && g.Scheme != corev1.URISchemeHTTP && g.Scheme != corev1.URISchemeHTTPS {
		all = append(all, field.NotSupported(path.Child("scheme"), g.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
	}
	return all
}

func validateCheckPort(path *field.Path, port int32) field.ErrorList {
	if port < 1 || port > 65535 {
		return field.ErrorList{field.Invalid(path, port, "must be from 1 to 65535")}
	}
	return nil
}
