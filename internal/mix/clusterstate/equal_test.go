// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixed are the fields that never change while a pod has its UID, or only together with another one.
var fixed = map[string]string{
	"Namespace": "the identity", "Name": "the identity", "RunsOnce": "restartPolicy", "SpreadByType": "the spread constraints, and Pinned",
}

// An update that changes only a field which equal leaves out is lost. The cases are the fields of the struct, so a new one is among them.
func TestNoChangeOfARecordIsLost(t *testing.T) {
	of := reflect.TypeFor[Pod]()
	for i := range of.NumField() {
		p, f := &Pod{}, of.Field(i)
		value := reflect.NewAt(f.Type, unsafe.Pointer(reflect.ValueOf(p).Elem().Field(i).UnsafeAddr())).Elem()
		switch value.Kind() {
		case reflect.String:
			value.SetString("x")
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Int, reflect.Int32, reflect.Int64:
			value.SetInt(1)
		case reflect.Uint8:
			value.SetUint(1)
		case reflect.Map:
			value.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Pointer:
			value.Set(reflect.New(f.Type.Elem()))
		default:
			require.Fail(t, "the test has no value for it", "%s %s", f.Name, f.Type)
		}
		assert.Equal(t, fixed[f.Name] == "", !p.equal(&Pod{}), f.Name)
	}
}
