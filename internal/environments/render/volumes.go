// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/hash"
)

// dataVolume is the name of a database's volume that no one named.
const dataVolume = "data"

// volume is a volume of a component.
type volume struct {
	name, mountPath, hostPath string
	readOnly                  bool
	// size is "" for one of the default size.
	size string
	// lost is set if it goes with the pod, absent if the pod has none.
	lost, absent bool
}

// volumesOf are the volumes of a component, that of the database's data too.
func (in *Input) volumesOf(c *Component) (list []volume) {
	names := map[string]bool{}
	for i := range c.Container.Volumes {
		names[c.Container.Volumes[i].Name] = true
	}
	for i := range c.Container.Volumes {
		list = append(list, in.volumeOf(c, i, names))
	}
	if !c.isDatabase() {
		return list
	}
	d := in.Environment.Spec.Stack.Database
	data, size := pathOf(d), ""
	if r := c.Container.Resources; r != nil {
		size = r.Disk
	}
	if i := slices.IndexFunc(list, func(v volume) bool { return v.mountPath == data && !v.absent }); i >= 0 {
		list[i].size = size
		return list
	}
	return append(list, volume{name: unused(names, dataVolume), mountPath: data, size: size, lost: !d.PersistentStorage})
}

// volumeOf is a volume of the container. One without a name gets one that is unused.
func (in *Input) volumeOf(c *Component, i int, names map[string]bool) volume {
	v := &c.Container.Volumes[i]
	out := volume{name: v.Name, mountPath: path.Clean(v.MountPath), hostPath: v.HostPath, readOnly: v.ReadOnly}
	if out.name == "" {
		out.name = unused(names, fmt.Sprintf("volume-%d", i+1))
	}
	// Where a directory of the node was requested, the claim that takes its place keeps the data as it would.
	out.lost = v.Ephemeral || c.isDatabase() && !in.Environment.Spec.Stack.Database.PersistentStorage && out.hostPath == ""
	if out.hostPath != "" && !Allows(in.Settings.HostPaths, out.hostPath) {
		out.hostPath, out.absent = "", v.ReadOnly
	}
	return out
}

// unused is a name, or one made of it if it is used already. It is used then.
func unused(names map[string]bool, name string) string {
	out := name
	for n := 2; names[out]; n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	names[out] = true
	return out
}

// claimOf is the name of a volume's claim.
func claimOf(component, volume string) string {
	name := component + "-" + volume
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	return strings.TrimRight(name[:validation.DNS1123LabelMaxLength-hashed-1], "-") + "-" + hash.Of(name, hashed)
}

// Allows reports whether a directory is one of those that are allowed, or in one of them.
func Allows(allowed []string, directory string) bool {
	directory = path.Clean(directory)
	for _, a := range allowed {
		if a = path.Clean(a); a == directory || a == "/" || strings.HasPrefix(directory, a+"/") {
			return true
		}
	}
	return false
}

// refusedHostPaths are the directories of nodes that an environment requests and does not get, by component: those that claims
// take the place of, and those that are absent. A read-only mount gets no claim: nothing would fill it,
// and it would hide what the image has at that path.
func refusedHostPaths(spec *v1alpha1.EnvironmentSpec, allowed []string) (claims, absent []string) {
	for _, c := range Components(&spec.Stack) {
		for i := range c.Container.Volumes {
			switch v := &c.Container.Volumes[i]; {
			case v.HostPath == "" || Allows(allowed, v.HostPath):
			case v.ReadOnly:
				absent = append(absent, fmt.Sprintf("%s %s (at %s)", c.Name, v.HostPath, v.MountPath))
			default:
				claims = append(claims, c.Name+" "+v.HostPath)
			}
		}
	}
	return claims, absent
}

// VolumesProvisioned returns whether the volumes of an environment are as it requests them, a reason in one word, and a message.
func VolumesProvisioned(spec *v1alpha1.EnvironmentSpec, allowed []string) (asked bool, reason, message string) {
	claims, absent := refusedHostPaths(spec, allowed)
	var parts []string
	if len(claims) > 0 {
		parts = append(parts, "claims take the place of "+strings.Join(claims, ", "))
	}
	if len(absent) > 0 {
		parts = append(parts, "read-only directories are not mounted: "+strings.Join(absent, ", "))
	}
	if len(parts) == 0 {
		return true, v1alpha1.ReasonConfigured, "every volume is what was requested"
	}
	return false, v1alpha1.ReasonHostPathNotAllowed, "environments.hostPaths does not allow directories of the node: " +
		strings.Join(parts, "; ")
}

// claims are those of the volumes that outlive the pod.
func (in *Input) claims(c *Component) (out []runtime.Object) {
	for _, v := range in.volumesOf(c) {
		if v.lost || v.absent || v.hostPath != "" {
			continue
		}
		size, err := budget.ParseQuantity(cmp.Or(v.size, in.Settings.VolumeSize))
		if err != nil {
			continue // validated, as the settings are
		}
		out = append(out, claim(in.meta(claimOf(c.Name, v.name), c.Name), size, in.Settings.StorageClass))
	}
	return out
}

// claim is a claim that one node at a time may use. A class of "" is the cluster's default.
func claim(meta metav1.ObjectMeta, size resource.Quantity, class string) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if class != "" {
		out.Spec.StorageClassName = &class
	}
	return out
}

// volumes are those of the pod.
func (in *Input) volumes(c *Component) (out []corev1.Volume) {
	for _, v := range in.volumesOf(c) {
		pod := corev1.Volume{Name: v.name}
		switch {
		case v.absent:
			continue
		case v.hostPath != "":
			pod.HostPath = &corev1.HostPathVolumeSource{Path: v.hostPath, Type: new(corev1.HostPathDirectoryOrCreate)}
		case v.lost:
			pod.EmptyDir = &corev1.EmptyDirVolumeSource{}
			if q, err := budget.ParseQuantity(v.size); v.size != "" && err == nil {
				pod.EmptyDir.SizeLimit = &q
			}
		default:
			pod.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimOf(c.Name, v.name)}
		}
		out = append(out, pod)
	}
	return out
}

// mounts are where the container sees them.
func (in *Input) mounts(c *Component) (out []corev1.VolumeMount) {
	for _, v := range in.volumesOf(c) {
		if v.absent {
			continue
		}
		out = append(out, corev1.VolumeMount{Name: v.name, MountPath: v.mountPath, ReadOnly: v.readOnly})
	}
	return out
}
