// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files again")

// mark is a text that no program has, with the path of its field.
var mark = regexp.MustCompile(`«([^»]*)»`)

// common is the beginning of the paths that several lists have: the metadata, and the specs of templates, which are those of pods.
var common = regexp.MustCompile(`^([a-zA-Z]+\.|[a-zA-Z]+\.Spec\.Template\.)(Labels|OwnerReferences|Name$|Namespace$|UID$)|^[a-zA-Z]+\.Spec\.Template\.`)

// filled are objects of each list with a mark in every text that their types have.
func filled() (all []Object) {
	s := &Snapshot{}
	for _, l := range s.lists() {
		o := l.fresh()
		fill(reflect.ValueOf(o).Elem(), l.name(), nil)
		all = append(all, o)
	}
	return all
}

// fill sets all fields of a value. A type within itself ends there.
func fill(v reflect.Value, path string, within []reflect.Type) {
	if slices.Contains(within, v.Type()) {
		return
	}
	within = append(slices.Clip(within), v.Type())
	switch v.Type() {
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case timeType:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))))
		return
	case reflect.TypeFor[corev1.PodConditionType](): // of others, no condition is kept
		v.SetString(string(corev1.PodReady))
		return
	case reflect.TypeFor[[]corev1.Volume]():
		fillVolumes(v, path, within)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, within)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported() || f.Name == "TypeMeta":
			case f.Anonymous:
				fill(v.Field(i), path, within)
			default:
				fill(v.Field(i), path+"."+f.Name, within)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, within)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+".key", within)
		fill(value, path, within)
		v.SetMapIndex(key, value)
		if strings.HasSuffix(path, ".Annotations") {
			for name := range annotations {
				v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf("«"+path+"."+name+"»"))
			}
		}
	case reflect.String:
		v.SetString("«" + path + "»")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	}
}

// fillVolumes makes a volume of each kind: a volume has one.
func fillVolumes(v reflect.Value, path string, within []reflect.Type) {
	kinds := reflect.TypeFor[corev1.VolumeSource]().NumField()
	v.Set(reflect.MakeSlice(v.Type(), kinds, kinds))
	for i := range kinds {
		v.Index(i).FieldByName("Name").SetString("«" + path + ".Name»")
		source := v.Index(i).FieldByName("VolumeSource").Field(i)
		fill(source, path+"."+reflect.TypeFor[corev1.VolumeSource]().Field(i).Name, within)
	}
}

func snapshotOf(t require.TestingT, objects ...Object) *Snapshot {
	b := NewBuilder(Header{Time: metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))})
	for _, o := range objects {
		require.NoError(t, b.Add(o))
	}
	return b.Snapshot()
}

// A field that a later version of Kubernetes or Berth adds to a type that is copied is not in a snapshot before somebody reads this list.
func TestOnlyFieldsOfTheListAreKept(t *testing.T) {
	encoded, err := json.Marshal(snapshotOf(t, filled()...))
	require.NoError(t, err)
	var kept []string
	for _, m := range mark.FindAllStringSubmatch(string(encoded), -1) {
		if _, key, of := strings.Cut(m[1], ".Annotations."); !of || key == "key" { // the list of annotations has the others
			kept = append(kept, common.ReplaceAllString(m[1], "${2}"))
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	if *update {
		require.NoError(t, os.WriteFile("testdata/kept.txt", []byte(strings.Join(kept, "\n")+"\n"), 0o600))
	}
	want, err := os.ReadFile("testdata/kept.txt")
	require.NoError(t, err)
	assert.Equal(t, strings.Fields(string(want)), kept, "run the test with -update if these fields hold no secrets")
	for _, field := range []string{
		"Env", "EnvFrom", "Command", "Args", "Image", "ImagePullSecrets", "Secret", "ConfigMap", "ServiceAccountName", "ManagedFields",
		"Message", "WorkingDir", "LivenessProbe", "ReadinessProbe", "Lifecycle", "SecurityContext", "HostPath", "Path", "Data", "Finalizers",
		"Annotations.key", "Addresses", "Images", "ProviderID", "Description", "MountPath",
	} {
		for _, path := range kept {
			assert.False(t, strings.HasSuffix(path, "."+field) || strings.Contains(path, "."+field+"."), "%s is kept", path)
		}
	}
}

// Deny by default: what no rule names has a pseudonym, in whatever field it is.
func TestNoTextOfAUserIsInAnAnonymisedSnapshot(t *testing.T) {
	s, err := snapshotOf(t, filled()...).Anonymise("seed")
	require.NoError(t, err)
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Empty(t, mark.FindAllString(string(encoded), -1))
	for _, c := range s.Counts() {
		assert.Equal(t, 1, c.Objects, c.List)
	}
	assert.NotContains(t, string(encoded), "«")
	assert.Contains(t, string(encoded), `"anonymised":true`)
}

// What was reduced once is not reduced further, so that a file has what was written.
func TestWhatIsKeptStays(t *testing.T) {
	once := snapshotOf(t, filled()...)
	var objects []Object
	for _, l := range once.lists() {
		objects = append(objects, l.at(0))
	}
	assert.Equal(t, once, snapshotOf(t, objects...))
}
