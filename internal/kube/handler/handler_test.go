// SPDX-License-Identifier: Apache-2.0

package handler_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/internal/kube/handler"
)

func TestADeletionThatWasMissedIsUnwrapped(t *testing.T) {
	var gone []string
	f := handler.Funcs[string]{Delete: func(s string) { gone = append(gone, s) }}
	f.OnDelete("seen")
	f.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/b", Obj: "missed"})
	f.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/b", Obj: nil})
	assert.Equal(t, []string{"seen", "missed"}, gone)
}

func TestWithoutUpdateAChangeIsAdded(t *testing.T) {
	var added []string
	f := handler.Funcs[string]{Add: func(s string) { added = append(added, s) }}
	f.OnAdd("first", true)
	f.OnUpdate("first", "second")
	assert.Equal(t, []string{"first", "second"}, added)
	f.Update = func(old, s string) { added = append(added, old+"→"+s) }
	f.OnUpdate("second", "third")
	assert.Equal(t, []string{"first", "second", "second→third"}, added)
	handler.Funcs[string]{}.OnAdd("ignored", false)
}
