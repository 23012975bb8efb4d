// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// All that there is of a complete environment, in the order in which it is applied: what pods need first.
func TestRender(t *testing.T) {
	var got []string
	for _, o := range Render(input(t)) {
		got = append(got, o.GetObjectKind().GroupVersionKind().Kind+" "+o.(object).GetName())
	}
	assert.Equal(t, []string{
		"CapacityMix database", "CapacityMix environment",
		"Secret database", "ResourceLimit database", "PersistentVolumeClaim database-data",
		"Service database", "Service database-pods", "Service database-outside", "StatefulSet database",
		"Service redis-cache", "Service redis-cache-outside", "Deployment redis-cache",
		"Secret backend", "ResourceLimit backend", "Service backend", "Service backend-outside", "Deployment backend",
		"Service frontend", "Service frontend-outside", "Deployment frontend",
		"Ingress frontend",
	}, got)
}

func TestRenderDatabase(t *testing.T) {
	list := Render(input(t))
	set := one[*appsv1.StatefulSet](t, list, stack.Database)
	assert.Equal(t, "database-pods", set.Spec.ServiceName)
	assert.Equal(t, int32(1), *set.Spec.Replicas)
	c := set.Spec.Template.Spec.Containers[0]
	plain, secret := envOf(&c)
	assert.Equal(t, map[string]string{"POSTGRES_DB": "shop", "POSTGRES_USER": "owner", "PGDATA": "/var/lib/postgresql/data/pgdata"}, plain)
	assert.Equal(t, map[string]string{"POSTGRES_PASSWORD": "database/POSTGRES_PASSWORD"}, secret)
	assert.Equal(t, map[string][]byte{"POSTGRES_PASSWORD": []byte(thePassword)}, one[*corev1.Secret](t, list, stack.Database).Data)
	assert.Equal(t, "pg_isready", c.ReadinessProbe.Exec.Command[0])
	assert.Nil(t, c.Lifecycle)

	// Its own Service, by which it is found, and the one that its pod has a name by.
	assert.Empty(t, one[*corev1.Service](t, list, stack.Database).Spec.ClusterIP)
	pods := one[*corev1.Service](t, list, "database-pods").Spec
	assert.Equal(t, corev1.ClusterIPNone, pods.ClusterIP)
	assert.True(t, pods.PublishNotReadyAddresses)
}

// A field that is not set is as the image has it; one that the client sets is rendered, but for the password.
func TestRenderDatabaseAsItIs(t *testing.T) {
	in := input(t, database(func(d *v1alpha1.DatabaseComponent) {
		*d = v1alpha1.DatabaseComponent{Container: v1alpha1.EnvironmentContainer{Image: "postgres"}, StoragePath: "/data/"}
	}))
	c := templatesOf(Render(in))[stack.Database].Spec.Containers[0]
	plain, _ := envOf(&c)
	assert.Equal(t, map[string]string{"POSTGRES_USER": "postgres", "PGDATA": "/data/pgdata"}, plain)
	assert.Equal(t, "postgresql://postgres:"+thePassword+"@database:5432/postgres", urlOf(t, in))

	in = input(t, database(func(d *v1alpha1.DatabaseComponent) {
		d.Container.Env = map[string]v1alpha1.ConfigValue{
			"PGDATA": "/var/lib/postgresql/data/mine", "POSTGRES_USER": "given", "POSTGRES_DB": "theirs", "POSTGRES_PASSWORD": "public", "TZ": "UTC",
		}
	}))
	c = templatesOf(Render(in))[stack.Database].Spec.Containers[0]
	plain, secret := envOf(&c)
	assert.Equal(t, map[string]string{"PGDATA": "/var/lib/postgresql/data/mine", "POSTGRES_USER": "given", "POSTGRES_DB": "theirs", "TZ": "UTC"}, plain)
	assert.Equal(t, map[string]string{"POSTGRES_PASSWORD": "database/POSTGRES_PASSWORD"}, secret)
	assert.Equal(t, "postgresql://given:"+thePassword+"@database:5432/theirs", urlOf(t, in), "the backend has the same")
}

func urlOf(t require.TestingT, in *Input) string {
	return string(one[*corev1.Secret](t, Render(in), stack.Backend).Data["DATABASE_URL"])
}

func TestRenderBackend(t *testing.T) {
	list := Render(input(t))
	c := one[*appsv1.Deployment](t, list, stack.Backend).Spec.Template.Spec.Containers[0]
	plain, secret := envOf(&c)
	assert.Equal(t, map[string]string{"NODE_ENV": "production", "LOG": "info"}, plain)
	assert.Equal(t, map[string]string{"DATABASE_URL": "backend/DATABASE_URL", "PAYMENT_KEY": "backend/PAYMENT_KEY"}, secret)
	assert.Equal(t, map[string][]byte{
		"DATABASE_URL": []byte("postgresql://owner:" + thePassword + "@database:5432/shop"), "PAYMENT_KEY": []byte(theKey),
	}, one[*corev1.Secret](t, list, stack.Backend).Data)
}

// The string that was given is taken as it is; without one and without a database there is none.
func TestDatabaseURL(t *testing.T) {
	assert.Equal(t, theURL, urlOf(t, input(t, func(in *Input) { in.Credentials.ConnectionString = theURL })))
	none := func(in *Input) { in.Environment.Spec.Stack.Database = nil }
	assert.Equal(t, theURL, urlOf(t, input(t, none, func(in *Input) { in.Credentials.ConnectionString = theURL })))

	in := input(t, none)
	c := templatesOf(Render(in))[stack.Backend].Spec.Containers[0]
	_, secret := envOf(&c)
	assert.Equal(t, map[string]string{"PAYMENT_KEY": "backend/PAYMENT_KEY"}, secret)
	in.Credentials.APIKeys = nil
	assert.Empty(t, of[*corev1.Secret](Render(in)), "a Secret of nothing")

	for name, c := range map[string]struct {
		ports []v1alpha1.EnvironmentPort
		want  string
	}{
		"none":                       {nil, "5432"},
		"another one":                {tcp(6432), "6432"},
		"the usual one among others": {append(tcp(9187), tcp(5432)...), "5432"},
		"no TCP":                     {[]v1alpha1.EnvironmentPort{{ContainerPort: 6432, Protocol: v1alpha1.ProtocolUDP}}, "5432"},
	} {
		u, err := url.Parse(urlOf(t, input(t, database(func(d *v1alpha1.DatabaseComponent) { d.Container.Ports = c.ports }))))
		require.NoError(t, err)
		assert.Equal(t, c.want, u.Port(), name)
	}
}

// Whatever the user, the password and the database are called, the URL is parsed to them.
func TestDatabaseURLIsEscaped(t *testing.T) {
	word := rapid.OneOf(rapid.StringMatching(`[ -~]{1,20}`), rapid.StringN(1, 20, -1))
	rapid.Check(t, func(t *rapid.T) {
		user, password, name := word.Draw(t, "user"), word.Draw(t, "password"), word.Draw(t, "name")
		in := input(t, database(func(d *v1alpha1.DatabaseComponent) { d.Username, d.DatabaseName = user, name }), func(in *Input) { in.Credentials.Password = password })
		u, err := url.Parse(urlOf(t, in))
		require.NoError(t, err)
		got, _ := u.User.Password()
		assert.Equal(t, []string{"postgresql", user, password, "database:5432", "/" + name}, []string{u.Scheme, u.User.Username(), got, u.Host, u.Path})
		assert.Empty(t, u.RawQuery+u.Fragment)
	})
}

func TestRenderFrontend(t *testing.T) {
	i := one[*networkingv1.Ingress](t, Render(input(t, func(in *Input) { in.Settings.IngressClass = "nginx" })), stack.Frontend)
	assert.Equal(t, "nginx", *i.Spec.IngressClassName)
	var domains []string
	for _, r := range i.Spec.Rules {
		domains = append(domains, r.Host)
		require.Len(t, r.HTTP.Paths, 1)
		p := r.HTTP.Paths[0]
		assert.Equal(t, "/ Prefix frontend 80", fmt.Sprint(p.Path, " ", *p.PathType, " ", p.Backend.Service.Name, " ", p.Backend.Service.Port.Number))
	}
	assert.Equal(t, []string{"shop.example", "*.shop.example"}, domains)
	assert.Equal(t, []networkingv1.IngressTLS{{Hosts: domains, SecretName: "frontend-tls"}}, i.Spec.TLS)

	frontend := func(change func(*v1alpha1.FrontendComponent)) *Input {
		return input(t, func(in *Input) { change(in.Environment.Spec.Stack.Frontend) })
	}
	i = one[*networkingv1.Ingress](t, Render(frontend(func(f *v1alpha1.FrontendComponent) {
		f.TLSEnabled = false
		f.Container.Ports = append([]v1alpha1.EnvironmentPort{{ContainerPort: 53, Protocol: v1alpha1.ProtocolUDP}}, f.Container.Ports...)
	})), stack.Frontend)
	assert.Empty(t, i.Spec.TLS)
	assert.Nil(t, i.Spec.IngressClassName, "the cluster's default")
	assert.Equal(t, int32(80), i.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number, "the first that is TCP")
	assert.Empty(t, of[*networkingv1.Ingress](Render(frontend(func(f *v1alpha1.FrontendComponent) { f.Domains = nil }))))
	assert.Empty(t, of[*networkingv1.Ingress](Render(input(t, func(in *Input) { in.Environment.Spec.Stack.Frontend = nil }))))
}

// The fields of a container reach its pod.
func TestRenderContainer(t *testing.T) {
	d := one[*appsv1.Deployment](t, Render(input(t)), stack.Backend)
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	assert.Equal(t, "berth-scheduler", spec.SchedulerName)
	assert.Equal(t, []string{stack.Backend, "node:22"}, []string{c.Name, c.Image})
	assert.Equal(t, []string{"node"}, c.Command)
	assert.Equal(t, []string{"server.js", "--verbose"}, c.Args)
	assert.Equal(t, []corev1.ContainerPort{{Name: "tcp-3000", ContainerPort: 3000, Protocol: corev1.ProtocolTCP}}, c.Ports)
	assert.Equal(t, int64(5), c.Lifecycle.PreStop.Sleep.Seconds, "requests come until all have heard that it ends")
	want := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("2Gi"),
	}
	assert.Equal(t, corev1.ResourceRequirements{Requests: want, Limits: want}, c.Resources)
	assert.Equal(t, stack.Backend, d.Spec.Template.Labels[v1alpha1.ResourceLimitLabel])

	// A database that keeps its data has a volume of that size; one that does not has it of its node.
	disk := func(persistent bool) *resource.Quantity {
		in := input(t, database(func(d *v1alpha1.DatabaseComponent) { d.PersistentStorage = persistent }))
		return templatesOf(Render(in))[stack.Database].Spec.Containers[0].Resources.Limits.StorageEphemeral()
	}
	assert.True(t, disk(true).IsZero())
	assert.Equal(t, "10Gi", disk(false).String())

	redis := templatesOf(Render(input(t)))["redis-cache"]
	assert.Equal(t, corev1.ResourceRequirements{}, redis.Spec.Containers[0].Resources)
	assert.NotContains(t, redis.Labels, v1alpha1.ResourceLimitLabel)
}

// Credentials that change roll what has them, and nothing else.
func TestCredentialsRollWhatHasThem(t *testing.T) {
	templates := templatesOf(Render(input(t)))
	for name, want := range map[string]string{stack.Database: "17-18", stack.Backend: "17-18", stack.Frontend: "", "redis-cache": ""} {
		assert.Equal(t, want, templates[name].Annotations[CredentialsAnnotation], name)
	}
}

// Pods of a stage that is not open wait for it, and none of one that is.
func TestRenderGates(t *testing.T) {
	for open, want := range map[int32][]string{0: {"redis-cache", stack.Backend, stack.Frontend}, 1: {stack.Backend, stack.Frontend}, 2: {stack.Frontend}, 3: {}, 4: {}} {
		in := input(t, func(in *Input) { in.OpenStages = open })
		got := []string{}
		for _, c := range stack.Components(&in.Environment.Spec.Stack) {
			if gates := templatesOf(Render(in))[c.Name].Spec.SchedulingGates; len(gates) > 0 {
				assert.Equal(t, []corev1.PodSchedulingGate{{Name: v1alpha1.StageGate}}, gates)
				got = append(got, c.Name)
			}
		}
		assert.Equal(t, want, got, "%d stages are open", open)
	}
}

// A component has the replicas that it is scaled to, and a drain leaves some of them.
func TestRenderReplicas(t *testing.T) {
	list := Render(input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Stack.Backend.Replicas, s.Stack.Frontend.Replicas = new(int32(3)), new(int32(0))
	})))
	assert.Equal(t, int32(3), *one[*appsv1.Deployment](t, list, stack.Backend).Spec.Replicas)
	assert.Equal(t, int32(0), *one[*appsv1.Deployment](t, list, stack.Frontend).Spec.Replicas)
	assert.Equal(t, int32(1), *one[*appsv1.Deployment](t, list, "redis-cache").Spec.Replicas)
	assert.Equal(t, []string{stack.Backend}, names[*policyv1.PodDisruptionBudget](list))
	budget := one[*policyv1.PodDisruptionBudget](t, list, stack.Backend).Spec
	assert.Equal(t, "1", budget.MaxUnavailable.String())
	assert.Equal(t, one[*appsv1.Deployment](t, list, stack.Backend).Spec.Selector, budget.Selector)
}

// The time of a restart is on the pods that it is for.
func TestRenderRestarts(t *testing.T) {
	templates := templatesOf(Render(input(t, func(in *Input) { in.Restarts = map[string]string{stack.Backend: "2026-01-01T00:00:00Z"} })))
	assert.Equal(t, "2026-01-01T00:00:00Z", templates[stack.Backend].Annotations[v1alpha1.RestartedAtAnnotation])
	assert.NotContains(t, templates[stack.Frontend].Annotations, v1alpha1.RestartedAtAnnotation)
}
