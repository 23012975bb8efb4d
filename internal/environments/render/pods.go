// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/hash"
)

// Environment variables, as PostgreSQL's image and most backends read them.
const (
	postgresDB   = "POSTGRES_DB"
	postgresUser = "POSTGRES_USER"
	databaseURL  = "DATABASE_URL"
	pgData       = "PGDATA"
)

// PostgresPassword is the variable, and the key in the Secret of Database, that has the database's password.
const PostgresPassword = "POSTGRES_PASSWORD" //nolint:gosec // the name of a variable

const (
	postgresPort = 5432
	defaultUser  = "postgres"
	// drain is how long a container that serves goes on after SIGTERM, in seconds: until then requests come to it
	// from clients whose endpoints are older.
	drain = 5
	// alwaysTried is how often a Job is tried that should come to its end.
	alwaysTried = 1_000_000
)

// CredentialsAnnotation on a pod template is the version of the credentials that its pods have.
const CredentialsAnnotation = v1alpha1.AnnotationPrefix + "/credentials-version"

// workload is what a component runs as.
func (in *Input) workload(c *stack.Component) runtime.Object {
	replicas := c.Replicas
	if !in.runs(c) {
		replicas = 0
	}
	template := in.template(c)
	selector := &metav1.LabelSelector{MatchLabels: in.selects(c.Name)}
	switch c.Workload {
	case stack.OfStatefulSet:
		return &appsv1.StatefulSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: in.meta(c.Name, c.Name),
			Spec: appsv1.StatefulSetSpec{
				Replicas: &replicas, Selector: selector, Template: template, ServiceName: stack.HeadlessService(c.Name),
				// Otherwise a pod that never becomes ready is never replaced by one of a template that would be.
				PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		}
	case stack.OfJob:
		return in.job(c, &template, replicas == 0)
	default:
		return &appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: in.meta(c.Name, c.Name),
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template, Strategy: in.strategy(c)},
		}
	}
}

// runs reports whether the pods of a component may be there.
func (in *Input) runs(c *stack.Component) bool {
	spec := &in.Environment.Spec
	return Runs(spec.RunPolicy, spec.ForceStop, in.OpenStages, c.Stage)
}

// strategy has a new pod be Ready before an old one goes, but where both cannot be at once: two pods cannot have the same
// port of a node, or one volume that a single node may have.
func (in *Input) strategy(c *stack.Component) appsv1.DeploymentStrategy {
	if len(in.claims(c)) > 0 {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if in.exposure() == v1alpha1.ExposureHostPort && len(c.Container.Ports) > 0 {
		surge, unavailable = unavailable, surge
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}
}

// job is a component that may end. The template of a Job cannot be changed, nor how often
// it is to end, so each has a name of its own.
func (in *Input) job(c *stack.Component, template *corev1.PodTemplateSpec, suspend bool) runtime.Object {
	retries := int32(alwaysTried)
	template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	if c.Container.RestartPolicy == v1alpha1.RestartNo {
		retries = 0
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	// A Job's pods are made when its stage is open, so that its template need not change then.
	suspend = suspend || Gated(in.Environment.Spec.RunPolicy, in.OpenStages, c.Stage)
	template.Spec.SchedulingGates = nil
	spec := batchv1.JobSpec{
		Template: *template, BackoffLimit: &retries, Parallelism: new(max(c.Replicas, 1)), Completions: new(max(c.Replicas, 1)),
	}
	text, _ := json.Marshal(spec) // of texts and numbers
	spec.Suspend = &suspend
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: in.meta(c.Name+"-"+hash.Of(string(text), hashed), c.Name),
		Spec:       spec,
	}
}

func (in *Input) template(c *stack.Component) corev1.PodTemplateSpec {
	e := in.Environment
	labels := in.meta("", c.Name).Labels
	if len(in.size(c)) > 0 {
		labels[v1alpha1.ResourceLimitLabel] = c.Name
	}
	security, container := in.securityContexts(c)
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{}}}
	if at := in.Restarts[c.Name]; at != "" {
		t.Annotations[v1alpha1.RestartedAtAnnotation] = at
	}
	if v := in.Credentials.Version; v != "" && len(in.secrets(c)) > 0 {
		t.Annotations[CredentialsAnnotation] = v
	}
	t.Spec = corev1.PodSpec{
		SchedulerName: in.Settings.SchedulerName,
		// What runs here is no client of the API server.
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SecurityContext: security,
		Containers:      []corev1.Container{in.container(c, container)},
		Volumes:         in.volumes(c),
	}
	t.Spec.TerminationGracePeriodSeconds = c.Container.TerminationGracePeriodSeconds
	in.colocate(c, &t.Spec)
	if Gated(e.Spec.RunPolicy, in.OpenStages, c.Stage) {
		t.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.StageGate}}
	}
	return t
}

func (in *Input) container(c *stack.Component, security *corev1.SecurityContext) corev1.Container {
	from, requests := c.Container, in.requests(c)
	out := corev1.Container{
		Name: c.Name, Image: from.Image, Command: from.Command, Args: from.Args,
		Env: in.env(c), VolumeMounts: in.mounts(c), Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		SecurityContext: security,
	}
	for i := range from.Ports {
		p := &from.Ports[i]
		port := corev1.ContainerPort{Name: portName(p), ContainerPort: p.ContainerPort, Protocol: corev1.Protocol(stack.ProtocolOf(p))}
		if in.exposure() == v1alpha1.ExposureHostPort {
			port.HostPort = in.hostPort(c.Name, p)
		}
		out.Ports = append(out.Ports, port)
	}
	// The API server accepts no sleep that is longer than the grace period.
	sleep := min(drain, ptr.Deref(from.TerminationGracePeriodSeconds, drain))
	if c.Workload == stack.OfDeployment && len(from.Ports) > 0 && sleep > 0 {
		out.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: sleep}}}
	}
	in.probes(c, &out)
	return out
}

// env are the variables of a container. What the client gives comes last, and wins, but for what is secret.
func (in *Input) env(c *stack.Component) (list []corev1.EnvVar) {
	plain := map[string]string{}
	if c.IsDatabase() {
		d := in.Environment.Spec.Stack.Database
		plain[postgresUser] = userOf(d)
		if d.DatabaseName != "" {
			plain[postgresDB] = d.DatabaseName
		}
		// The root of a volume has a lost+found, with which the database would not start.
		plain[pgData] = path.Join(stack.DataPath(d), "pgdata")
	}
	for name, value := range c.Container.Env {
		plain[name] = string(value)
	}
	secret := in.secrets(c)
	for _, name := range sorted(plain) {
		if _, is := secret[name]; !is {
			list = append(list, corev1.EnvVar{Name: name, Value: plain[name]})
		}
	}
	for _, name := range sorted(secret) {
		list = append(list, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: c.Name}, Key: name,
		}}})
	}
	return list
}

// databaseURL is where the backend finds its database, "" if there is none.
func (in *Input) databaseURL() string {
	if in.Credentials.ConnectionString != "" {
		return in.Credentials.ConnectionString
	}
	d := in.Environment.Spec.Stack.Database
	if d == nil {
		return ""
	}
	u := url.URL{
		Scheme: "postgresql", User: url.UserPassword(userOf(d), in.Credentials.Password),
		Host: net.JoinHostPort(stack.Database, fmt.Sprint(portOf(d))), Path: "/" + DatabaseName(d),
	}
	return u.String()
}

// userOf is the user of the database: its variable's value, if the client gave one.
func userOf(d *v1alpha1.DatabaseComponent) string {
	return cmp.Or(string(d.Container.Env[postgresUser]), d.Username, defaultUser)
}

// DatabaseName is the name of the database of a stack, within its server: by default that of its user, as the image has it.
func DatabaseName(d *v1alpha1.DatabaseComponent) string {
	return cmp.Or(string(d.Container.Env[postgresDB]), d.DatabaseName, userOf(d))
}

// portOf is where the database listens: the usual port if it is among its ports, else the first.
func portOf(d *v1alpha1.DatabaseComponent) int32 {
	first := int32(0)
	for i := range d.Container.Ports {
		switch p := &d.Container.Ports[i]; {
		case stack.ProtocolOf(p) != v1alpha1.ProtocolTCP:
		case p.ContainerPort == postgresPort:
			return postgresPort
		case first == 0:
			first = p.ContainerPort
		}
	}
	return cmp.Or(first, postgresPort)
}

// requests are what a component requests of its node, and what it is limited to: what an environment is given is there for it.
func (in *Input) requests(c *stack.Component) corev1.ResourceList {
	r := c.Container.Resources
	if r == nil {
		return nil
	}
	texts := map[corev1.ResourceName]string{
		corev1.ResourceCPU: r.CPU, corev1.ResourceMemory: r.Memory, corev1.ResourceEphemeralStorage: r.Disk,
	}
	if c.IsDatabase() && in.Environment.Spec.Stack.Database.PersistentStorage {
		delete(texts, corev1.ResourceEphemeralStorage) // it is the size of the volume
	}
	list := corev1.ResourceList{}
	for name, text := range texts {
		if q, err := budget.ParseQuantity(text); err == nil { // it is validated, or ""
			list[name] = q
		}
	}
	return list
}

func portName(p *v1alpha1.EnvironmentPort) string {
	return strings.ToLower(fmt.Sprintf("%s-%d", stack.ProtocolOf(p), p.ContainerPort))
}

func (in *Input) hostPort(component string, p *v1alpha1.EnvironmentPort) int32 {
	return stack.Allocated(in.Ports, &v1alpha1.AllocatedPort{
		Component: component, ContainerPort: p.ContainerPort, Protocol: stack.ProtocolOf(p),
	})
}
