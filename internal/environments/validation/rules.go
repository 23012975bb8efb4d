// SPDX-License-Identifier: Apache-2.0

package validation

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
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/stack"
)

// MaxServiceName is how long the name of an additional service may be: names of its objects are made of it.
const MaxServiceName = 52

const maxPort = 65535

// validateComponent has the rules of every component.
func validateComponent(c *stack.Component) field.ErrorList {
	all := validateContainer(c.Path.Child("container"), c.Container)
	all = append(all, validateWithin(c.Path.Child("replicas"), &c.Replicas, 0, stack.MaxReplicas)...)
	return append(all, validateAutoscaling(c.Path.Child("autoscaling"), c.Autoscaling, c.Container)...)
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
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
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
	seen := map[stack.PortKey]bool{}
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		all = append(all, validateWithin(at.Child("containerPort"), &p.ContainerPort, 1, maxPort)...)
		if p.HostPort < 0 || p.HostPort > maxPort {
			all = append(all, field.Invalid(at.Child("hostPort"), p.HostPort, "must be from 1 to 65535, or 0 to have one allocated"))
		}
		protocol := stack.ProtocolOf(p)
		if protocol != v1alpha1.ProtocolTCP && protocol != v1alpha1.ProtocolUDP {
			protocols := []v1alpha1.EnvironmentProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP}
			all = append(all, field.NotSupported(at.Child("protocol"), p.Protocol, protocols))
		}
		k := stack.PortKey{Number: p.ContainerPort, Protocol: protocol}
		if seen[k] {
			all = append(all, field.Duplicate(at.Child("containerPort"), p.ContainerPort))
		}
		seen[k] = true
	}
	return all
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
	all = append(all, validateWithin(path.Child("intervalSeconds"), &h.IntervalSeconds, 0, 86400)...)
	all = append(all, validateWithin(path.Child("timeoutSeconds"), &h.TimeoutSeconds, 0, 86400)...)
	all = append(all, validateWithin(path.Child("retries"), &h.Retries, 0, 1000)...)
	return append(all, validateWithin(path.Child("startPeriodSeconds"), &h.StartPeriodSeconds, 0, 86400)...)
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
		return validateWithin(path.Child("tcpSocket", "port"), &h.TCPSocket.Port, 1, maxPort)
	case h.GRPC != nil:
		return validateWithin(path.Child("grpc", "port"), &h.GRPC.Port, 1, maxPort)
	}
	if h.Command[0] == "CMD-SHELL" && len(h.Command) != 2 || len(h.Command) == 1 && h.Command[0] == "CMD" {
		return field.ErrorList{field.Invalid(path.Child("command"), h.Command, "must have a command after "+h.Command[0])}
	}
	return nil
}

func validateHTTPGet(path *field.Path, g *v1alpha1.EnvironmentHTTPGet) field.ErrorList {
	all := validateWithin(path.Child("port"), &g.Port, 1, maxPort)
	if g.Path != "" && !strings.HasPrefix(g.Path, "/") {
		all = append(all, field.Invalid(path.Child("path"), g.Path, "must begin with '/'"))
	}
	if g.Scheme != "" && g.Scheme != corev1.URISchemeHTTP && g.Scheme != corev1.URISchemeHTTPS {
		all = append(all, field.NotSupported(path.Child("scheme"), g.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
	}
	return all
}

// validateSecurity has the rules of the CRD that concern more than one field.
func validateSecurity(path *field.Path, s *v1alpha1.EnvironmentSecurityContext) (all field.ErrorList) {
	if s == nil {
		return nil
	}
	if s.RunAsNonRoot && s.RunAsUser != nil && *s.RunAsUser == 0 {
		all = append(all, field.Invalid(path.Child("runAsUser"), *s.RunAsUser, "must not be 0 with runAsNonRoot"))
	}
	if p := s.SeccompProfile; p != nil && (p.Type == v1alpha1.SeccompLocalhost) != (p.LocalhostProfile != "") {
		all = append(all, field.Invalid(path.Child("seccompProfile", "localhostProfile"), p.LocalhostProfile,
			"must be set with the type Localhost, and only with it"))
	}
	return all
}

// validateAutoscaling has the rules of the CRD, and that there is a request of which the usage is a percentage.
func validateAutoscaling(path *field.Path, a *v1alpha1.EnvironmentAutoscaling, c *v1alpha1.EnvironmentContainer) (all field.ErrorList) {
	if a == nil {
		return nil
	}
	all = append(all, validateWithin(path.Child("minReplicas"), a.MinReplicas, 1, stack.MaxReplicas)...)
	all = append(all, validateWithin(path.Child("maxReplicas"), &a.MaxReplicas, ptr.Deref(a.MinReplicas, 1), stack.MaxReplicas)...)
	all = append(all, validateWithin(path.Child("targetCPUPercent"), a.TargetCPUPercent, 1, 100)...)
	all = append(all, validateWithin(path.Child("targetMemoryPercent"), a.TargetMemoryPercent, 1, 100)...)
	if c.RestartPolicy == v1alpha1.RestartNo || c.RestartPolicy == v1alpha1.RestartOnFailure {
		all = append(all, field.Forbidden(path, fmt.Sprintf("a component with the restart policy %s is a Job, which has no autoscaler",
			c.RestartPolicy)))
	}
	r := ptr.Deref(c.Resources, v1alpha1.EnvironmentResources{})
	if r.CPU == "" && (a.TargetCPUPercent != nil || a.TargetMemoryPercent == nil) {
		all = append(all, field.Required(path, "requires container.resources.cpu: the target is a percentage of it"))
	}
	if r.Memory == "" && a.TargetMemoryPercent != nil {
		all = append(all, field.Required(path, "requires container.resources.memory: the target is a percentage of it"))
	}
	return all
}

// validateDatabase has the rules of a database beside those of every component.
func validateDatabase(path *field.Path, d *v1alpha1.DatabaseComponent) field.ErrorList {
	if d == nil {
		return nil
	}
	var all field.ErrorList
	if p := d.Container.RestartPolicy; p == v1alpha1.RestartNo || p == v1alpha1.RestartOnFailure {
		all = append(all, field.NotSupported(path.Child("container", "restartPolicy"), p,
			[]v1alpha1.EnvironmentRestartPolicy{v1alpha1.RestartAlways, v1alpha1.RestartUnlessStopped}))
	}
	if d.StoragePath != "" {
		all = append(all, validatePath(path.Child("storagePath"), d.StoragePath)...)
	}
	for _, n := range []struct{ name, value string }{{"databaseName", d.DatabaseName}, {"username", d.Username}} {
		if strings.ContainsRune(n.value, 0) {
			all = append(all, field.Invalid(path.Child(n.name), n.value, "must not have a zero byte"))
		}
	}
	return append(all, validateSecret(path.Child("secretRef"), d.SecretRef)...)
}

// validateFrontend has the rules of a frontend beside those of every component.
func validateFrontend(path *field.Path, f *v1alpha1.FrontendComponent) field.ErrorList {
	if f == nil {
		return nil
	}
	all := validateDomains(path.Child("domains"), f.Domains)
	isTCP := func(p v1alpha1.EnvironmentPort) bool { return p.Protocol != v1alpha1.ProtocolUDP }
	if len(f.Domains) > 0 && !slices.ContainsFunc(f.Container.Ports, isTCP) {
		all = append(all, field.Required(path.Child("container", "ports"), "domains need a TCP port to lead to"))
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

// validateNames refuses names of additional services that another component has, or a Service of one.
func validateNames(path *field.Path, list []v1alpha1.AdditionalService, components []stack.Component) field.ErrorList {
	services := map[string]string{}
	for i := range components {
		c := &components[i]
		services[stack.OutsideService(c.Name)] = c.Name
		if c.Workload == stack.OfStatefulSet {
			services[stack.HeadlessService(c.Name)] = c.Name
		}
	}
	var all field.ErrorList
	seen := map[string]bool{}
	for i := range list {
		name, at := list[i].Name, path.Index(i).Child("name")
		switch {
		case seen[name]:
			all = append(all, field.Duplicate(at, name))
		case name == stack.Frontend || name == stack.Backend || name == stack.Database:
			all = append(all, field.Invalid(at, name, "is the name of a component that every stack may have"))
		case len(name) > MaxServiceName:
			all = append(all, field.TooLong(at, name, MaxServiceName))
		default:
			all = append(all, invalid(at, name, validation.IsDNS1035Label)...) // as the name of a Service
		}
		seen[name] = true
		if other := services[name]; other != "" {
			all = append(all, field.Invalid(at, name, "is the name of a Service of "+other))
		}
	}
	return all
}

func validateNetwork(path *field.Path, n *v1alpha1.EnvironmentNetwork) (all field.ErrorList) {
	if n == nil {
		return nil
	}
	if n.Exposure != "" && !slices.Contains(v1alpha1.EnvironmentExposures, n.Exposure) {
		all = append(all, field.NotSupported(path.Child("exposure"), n.Exposure, v1alpha1.EnvironmentExposures))
	}
	if n.Egress == nil {
		return all
	}
	for i, network := range n.Egress.Networks {
		all = append(all, validation.IsValidCIDR(path.Child("egress", "networks").Index(i), network)...)
	}
	return all
}

func validatePlacement(path *field.Path, p *v1alpha1.EnvironmentPlacement) field.ErrorList {
	if p == nil {
		return nil
	}
	all := append(validateWithin(path.Child("spotPercent"), p.SpotPercent, 0, 100),
		validateWithin(path.Child("minOnDemand"), p.MinOnDemand, 0, stack.MaxReplicas)...)
	colocations := []v1alpha1.EnvironmentColocation{v1alpha1.ColocationNone, v1alpha1.ColocationSameZone}
	if p.Colocation != "" && !slices.Contains(colocations, p.Colocation) {
		all = append(all, field.NotSupported(path.Child("colocation"), p.Colocation, colocations))
	}
	return append(all, invalid(path.Child("preferredZone"), p.PreferredZone, validation.IsValidLabelValue)...)
}

func validateSecret(path *field.Path, ref *v1alpha1.EnvironmentSecret) field.ErrorList {
	if ref == nil {
		return nil
	}
	return invalid(path.Child("name"), ref.Name, validation.IsDNS1123Subdomain)
}

// validateHostPorts refuses a host port that occurs twice within the environment.
func validateHostPorts(components []stack.Component) field.ErrorList {
	var all field.ErrorList
	seen := map[stack.PortKey]bool{}
	for i := range components {
		c := &components[i]
		for n := range c.Container.Ports {
			p := &c.Container.Ports[n]
			k := stack.PortKey{Number: p.HostPort, Protocol: stack.ProtocolOf(p)}
			if p.HostPort > 0 && seen[k] {
				all = append(all, field.Duplicate(c.Path.Child("container", "ports").Index(n).Child("hostPort"), p.HostPort))
			}
			seen[k] = true
		}
	}
	return all
}

// validateVolumesOf refuses names of which two components would make one claim, in which one would find the data of the other, and a
// volume of persistent data that goes with its pod.
func validateVolumesOf(s *v1alpha1.ApplicationStack, components []stack.Component) field.ErrorList {
	var all field.ErrorList
	claims := map[string]string{}
	for i := range components {
		c := &components[i]
		for n, v := range stack.Volumes(s, c, nil) {
			at := c.Path.Child("container", "volumes").Index(n)
			if c.IsDatabase() && s.Database.PersistentStorage && v.Lost && v.MountPath == stack.DataPath(s.Database) {
				all = append(all, field.Invalid(at.Child("ephemeral"), v.Lost, "must be false for the volume of the data with persistentStorage"))
			}
			claim := stack.ClaimOf(c.Name, v.Name)
			if other := claims[claim]; other != "" && other != c.Name {
				all = append(all, field.Invalid(at.Child("name"), v.Name, "has the claim "+claim+", as a volume of "+other+" does"))
			}
			claims[claim] = c.Name
		}
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

func validateWithin(path *field.Path, n *int32, least, most int32) field.ErrorList {
	if n == nil || *n >= least && *n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be from %d to %d", least, most))}
}
