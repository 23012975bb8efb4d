// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

func database(change func(*v1alpha1.DatabaseComponent)) func(*Input) {
	return func(in *Input) { change(in.Environment.Spec.Stack.Database) }
}

// volumesOf describes each volume of a component's pod, by its place.
func volumesOf(t *testing.T, in *Input, component string) map[string]string {
	t.Helper()
	list := Render(in)
	wellRendered(t, in)
	template := templatesOf(list)[component]
	require.NotNil(t, template)
	what := map[string]string{}
	for i := range template.Spec.Volumes {
		switch v := &template.Spec.Volumes[i]; {
		case v.HostPath != nil:
			what[v.Name] = "directory " + v.HostPath.Path
		case v.EmptyDir != nil:
			what[v.Name] = "lost"
			if v.EmptyDir.SizeLimit != nil {
				what[v.Name] += " " + v.EmptyDir.SizeLimit.String()
			}
		default:
			claim := one[*corev1.PersistentVolumeClaim](t, list, v.PersistentVolumeClaim.ClaimName)
			what[v.Name] = "claim " + claim.Name + " " + claim.Spec.Resources.Requests.Storage().String()
			assert.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, claim.Spec.AccessModes)
		}
	}
	out := map[string]string{}
	for _, m := range template.Spec.Containers[0].VolumeMounts {
		out[m.MountPath] = what[m.Name]
		if m.ReadOnly {
			out[m.MountPath] += " read-only"
		}
	}
	return out
}

// A database that is to keep its data has a claim of the size of its disk, one that is not has a volume that
// goes with its pod.
func TestVolumesOfADatabase(t *testing.T) {
	const data = "/var/lib/postgresql/data"
	type (
		component = v1alpha1.DatabaseComponent
		volume    = v1alpha1.EnvironmentVolume
		volumes   = map[string]string
	)
	said := func(persistent bool, list ...volume) func(*component) {
		return func(d *component) { d.PersistentStorage, d.Container.Volumes = persistent, list }
	}
	for name, c := range map[string]struct {
		change func(*component)
		want   volumes
	}{
		"it keeps its data":       {func(*component) {}, volumes{data: "claim database-data 10Gi"}},
		"of the default size":     {func(d *component) { d.Container.Resources = nil }, volumes{data: "claim database-data 1Gi"}},
		"elsewhere":               {func(d *component) { d.StoragePath = "/data/" }, volumes{"/data": "claim database-data 10Gi"}},
		"it does not":             {func(d *component) { d.PersistentStorage = false }, volumes{data: "lost 10Gi"}},
		"it does not, of no size": {func(d *component) { d.PersistentStorage, d.Container.Resources = false, nil }, volumes{data: "lost"}},
		"where the volume is whose directory of the node is set": {
			func(d *component) {
				d.StoragePath = "/srv/pg/"
				d.Container.Volumes = []volume{{MountPath: "/logs"}, {Name: "pg", MountPath: "/pg/", HostPath: "/srv/pg"}}
			},
			volumes{"/logs": "claim database-volume-1 1Gi", "/pg": "claim database-pg 10Gi"},
		},
		"at the path in the container, if that is set too": {
			func(d *component) {
				d.StoragePath = "/pg"
				d.Container.Volumes = []volume{{Name: "x", MountPath: "/x", HostPath: "/pg"}, {Name: "pg", MountPath: "/pg"}}
			},
			volumes{"/x": "claim database-x 1Gi", "/pg": "claim database-pg 10Gi"},
		},
		"it does not lose its data for a volume that it may not write": {
			said(true, volume{Name: "pg", MountPath: data, HostPath: "/srv/pg", ReadOnly: true}), volumes{data: "claim database-data 10Gi"},
		},
		"its volume is listed": {
			said(true, volume{Name: "pg", MountPath: data + "/"}, volume{MountPath: "/logs"}),
			volumes{data: "claim database-pg 10Gi", "/logs": "claim database-volume-2 1Gi"},
		},
		"its volumes are listed as lost": {
			said(false, volume{Name: "pg", MountPath: data}, volume{MountPath: "/logs"}), volumes{data: "lost 10Gi", "/logs": "lost"},
		},
		"another one has the name of its volume": {
			said(true, volume{Name: "data", MountPath: "/more"}),
			volumes{"/more": "claim database-data 1Gi", data: "claim database-data-2 10Gi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, volumesOf(t, input(t, database(c.change)), stack.Database))
		})
	}
}

// Stopped, it keeps its claim.
func TestAClaimOutlivesAStop(t *testing.T) {
	in := input(t, specOf(func(s *v1alpha1.EnvironmentSpec) { s.RunPolicy = v1alpha1.RunPolicyStopped }), func(in *Input) { in.OpenStages = 0 })
	assert.Equal(t, []string{"database-data"}, names[*corev1.PersistentVolumeClaim](Render(in)))
	assert.Zero(t, *one[*appsv1.StatefulSet](t, Render(in), stack.Database).Spec.Replicas)
}

// A directory of the node is that where it is allowed, and a claim of the same name where it is not.
func TestHostPaths(t *testing.T) {
	volumes := []v1alpha1.EnvironmentVolume{
		{Name: "code", MountPath: "/app", HostPath: "/srv/shop/code", ReadOnly: true},
		{Name: "etc", MountPath: "/x", HostPath: "/etc"},
		{MountPath: "/beside", HostPath: "/srv/shop-of-others"},
		{Name: "volume-3", MountPath: "/own"},
	}
	at := func(allowed ...string) func(*Input) {
		return func(in *Input) {
			in.Settings.HostPaths = allowed
			in.Environment.Spec.Stack.Backend.Container.Volumes = volumes
		}
	}
	in := input(t, at("/srv/shop"))
	assert.Equal(t, map[string]string{
		"/app": "directory /srv/shop/code read-only", "/x": "claim backend-etc 1Gi",
		"/beside": "claim backend-volume-3-2 1Gi", "/own": "claim backend-volume-3 1Gi",
	}, volumesOf(t, in, stack.Backend))
	is, reason, message := VolumesProvisioned(&in.Environment.Spec, in.Settings.HostPaths)
	assert.False(t, is)
	assert.Equal(t, v1alpha1.ReasonHostPathNotAllowed, reason)
	assert.Equal(t, "environments.hostPaths does not allow directories of the node: "+
		"claims take the place of backend /etc, backend /srv/shop-of-others", message)

	// An empty claim that no one can fill would hide what the image has there.
	in = input(t, at())
	assert.Equal(t, map[string]string{
		"/x": "claim backend-etc 1Gi", "/beside": "claim backend-volume-3-2 1Gi", "/own": "claim backend-volume-3 1Gi",
	}, volumesOf(t, in, stack.Backend))
	assert.NotContains(t, names[*corev1.PersistentVolumeClaim](Render(in)), "backend-code")
	_, _, message = VolumesProvisioned(&in.Environment.Spec, nil)
	assert.Contains(t, message, "; read-only directories are not mounted: backend /srv/shop/code (at /app)")

	is, reason, _ = VolumesProvisioned(&in.Environment.Spec, []string{"/"})
	assert.True(t, is)
	assert.Equal(t, v1alpha1.ReasonConfigured, reason)

	// A database that keeps nothing by itself keeps what was to be on the node.
	in = input(t, database(func(d *v1alpha1.DatabaseComponent) {
		d.PersistentStorage = false
		d.Container.Volumes = []v1alpha1.EnvironmentVolume{{Name: "pg", MountPath: "/var/lib/postgresql/data", HostPath: "/srv/pg"}}
	}))
	assert.Equal(t, map[string]string{"/var/lib/postgresql/data": "claim database-pg 10Gi"}, volumesOf(t, in, stack.Database))
	in.Settings.HostPaths = []string{"/srv"}
	for _, storage := range []string{"", "/srv/pg"} {
		in.Environment.Spec.Stack.Database.StoragePath = storage
		assert.Equal(t, map[string]string{"/var/lib/postgresql/data": "directory /srv/pg"}, volumesOf(t, in, stack.Database))
		assert.Empty(t, names[*corev1.PersistentVolumeClaim](Render(in)))
	}
}

// Nothing outside is reached by a directory within, and each that is requested is either there or refused.
func TestHostPathsAreNeverIgnored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		asked, got := 0, 0
		for _, c := range stack.Components(&in.Environment.Spec.Stack) {
			for _, v := range c.Container.Volumes {
				if v.HostPath != "" {
					asked++
				}
			}
		}
		for _, template := range templatesOf(Render(in)) {
			for i := range template.Spec.Volumes {
				if h := template.Spec.Volumes[i].HostPath; h != nil {
					got++
					assert.True(t, stack.AllowsPath(in.Settings.HostPaths, h.Path))
				}
			}
		}
		claims, absent := refusedHostPaths(&in.Environment.Spec, in.Settings.HostPaths)
		assert.Equal(t, asked, got+len(claims)+len(absent))
	})
}

// Claims are of the class that is configured, else of the cluster's.
func TestStorageClass(t *testing.T) {
	assert.Nil(t, one[*corev1.PersistentVolumeClaim](t, Render(input(t)), "database-data").Spec.StorageClassName)
	in := input(t, func(in *Input) { in.Settings.StorageClass = "fast" })
	assert.Equal(t, "fast", *one[*corev1.PersistentVolumeClaim](t, Render(in), "database-data").Spec.StorageClassName)
}
