// SPDX-License-Identifier: Apache-2.0

package status

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// full is a status with every field set.
func full(t *testing.T) *v1alpha1.CapacityMixStatus {
	t.Helper()
	s := &v1alpha1.CapacityMixStatus{}
	fillIn(t, reflect.ValueOf(s).Elem())
	return s
}

func fillIn(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(metav1.NewTime(noon)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fillIn(t, field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillIn(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// each calls f after a change of every field at any depth, one after the other.
func each(v reflect.Value, name string, f func(name string)) {
	old := reflect.ValueOf(v.Interface())
	defer v.Set(old)
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(metav1.NewTime(noon.Add(time.Hour))))
		f(name)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Pointer:
		each(v.Elem(), name, f)
		v.SetZero()
		f(name + " is not set")
	case reflect.Slice:
		each(v.Index(1), name+"[1]", f)
		v.Set(v.Slice(0, 1))
		f(name + " is shorter")
		v.SetZero()
		f(name + " is empty")
	case reflect.String:
		v.SetString("y")
		f(name)
	default:
		v.SetInt(2)
		f(name)
	}
}

func TestNoFieldOfAStatusIsOverlooked(t *testing.T) {
	a, b := full(t), full(t)
	b.Conditions[0].LastTransitionTime = metav1.NewTime(noon.In(time.FixedZone("there", 3600)))
	b.Workloads[0].RetryTime = &b.Conditions[0].LastTransitionTime
	require.True(t, equality.Semantic.DeepEqual(a, b))
	assert.True(t, sameStatus(a, b), "one moment, written in two ways")
	assert.True(t, sameStatus(&v1alpha1.CapacityMixStatus{}, &v1alpha1.CapacityMixStatus{Workloads: []v1alpha1.WorkloadMix{}}), "an empty list is none")
	n := 0
	each(reflect.ValueOf(a).Elem(), "", func(name string) {
		n++
		assert.False(t, sameStatus(a, b), name)
		assert.False(t, sameStatus(b, a), name)
	})
	assert.Greater(t, n, 30)
	assert.True(t, sameStatus(a, b), "and all is back")
}
