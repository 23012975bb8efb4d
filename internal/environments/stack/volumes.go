// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
)

const (
	// DefaultDataPath is where a database has its data by default.
	DefaultDataPath = "/var/lib/postgresql/data"
	// dataVolume is the name of a database's volume that no one named.
	dataVolume = "data"
	// hashed is how many digits of a hash the name of a claim ends with if it is too long.
	hashed = 8
)

// Volume is a volume of a component.
type Volume struct {
	Name, MountPath, HostPath string
	ReadOnly                  bool
	// Size is "" for one of the default size.
	Size string
	// Lost is set if it goes with the pod, Absent if the pod has none.
	Lost, Absent bool
}

// Volumes are the volumes of a component, that of the database's data too. Directories of nodes are those in hostPaths: see AllowsPath.
func Volumes(stack *v1alpha1.ApplicationStack, c *Component, hostPaths []string) (list []Volume) {
	names := map[string]bool{}
	for i := range c.Container.Volumes {
		names[c.Container.Volumes[i].Name] = true
	}
	kept := !c.IsDatabase() || stack.Database.PersistentStorage
	for i := range c.Container.Volumes {
		list = append(list, volume(c, i, names, kept, hostPaths))
	}
	if !c.IsDatabase() {
		return list
	}
	data, size := DataPath(stack.Database), ""
	if r := c.Container.Resources; r != nil {
		size = r.Disk
	}
	if i := slices.IndexFunc(list, func(v Volume) bool { return v.MountPath == data && !v.Absent }); i >= 0 {
		list[i].Size = size
		return list
	}
	return append(list, Volume{Name: unused(names, dataVolume), MountPath: data, Size: size, Lost: !kept})
}

// volume is a volume of the container. One without a name gets one that is unused. Kept is set if volumes keep their data.
func volume(c *Component, i int, names map[string]bool, kept bool, hostPaths []string) Volume {
	v := &c.Container.Volumes[i]
	out := Volume{Name: v.Name, MountPath: path.Clean(v.MountPath), HostPath: v.HostPath, ReadOnly: v.ReadOnly}
	if out.Name == "" {
		out.Name = unused(names, fmt.Sprintf("volume-%d", i+1))
	}
	// Where a directory of the node was requested, the claim that takes its place keeps the data as it would.
	out.Lost = v.Ephemeral || !kept && out.HostPath == ""
	if out.HostPath != "" && !AllowsPath(hostPaths, out.HostPath) {
		out.HostPath, out.Absent = "", v.ReadOnly
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

// ClaimOf is the name of a volume's claim.
func ClaimOf(component, volume string) string {
	name := component + "-" + volume
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	return strings.TrimRight(name[:validation.DNS1123LabelMaxLength-hashed-1], "-") + "-" + hash.Of(name, hashed)
}

// AllowsPath reports whether a directory is one of those that are allowed, or in one of them.
func AllowsPath(allowed []string, directory string) bool {
	directory = path.Clean(directory)
	for _, a := range allowed {
		if a = path.Clean(a); a == directory || a == "/" || strings.HasPrefix(directory, a+"/") {
			return true
		}
	}
	return false
}

// DataPath is the path of the data in the container. The storage path may also be a directory of the node: that of the volume with
// the data.
func DataPath(d *v1alpha1.DatabaseComponent) string {
	data, volumes := path.Clean(cmp.Or(d.StoragePath, DefaultDataPath)), d.Container.Volumes
	if slices.ContainsFunc(volumes, func(v v1alpha1.EnvironmentVolume) bool { return path.Clean(v.MountPath) == data }) {
		return data
	}
	for i := range volumes {
		if path.Clean(volumes[i].HostPath) == data {
			return path.Clean(volumes[i].MountPath)
		}
	}
	return data
}
