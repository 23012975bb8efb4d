// SPDX-License-Identifier: Apache-2.0

package uncached

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAChangeIsRepeatedOnWhatTheConflictLeft(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "environments"}, "web", errors.New("another version"))
	gone := errors.New("gone")
	for name, tc := range map[string]struct {
		conflicts int
		readErr   error
		want      []int // versions that are written
		object    int
		wantErr   error
	}{
		"without a conflict nothing is read":  {readErr: gone, want: []int{0}},
		"after each conflict it is read":      {conflicts: 2, want: []int{0, 1, 2}, object: 2},
		"what cannot be read is not written":  {conflicts: 1, readErr: gone, want: []int{0}, object: 1, wantErr: gone},
		"conflicts without end are the error": {conflicts: 100, want: []int{0, 1, 2, 3, 4}, object: 4, wantErr: conflict},
	} {
		t.Run(name, func(t *testing.T) {
			version, conflicts := 0, tc.conflicts
			var written []int
			object, err := Change(version, func() (int, error) { version++; return version, tc.readErr }, func(v int) error {
				if written = append(written, v); conflicts > 0 {
					conflicts--
					return conflict
				}
				return nil
			})
			require.ErrorIs(t, err, tc.wantErr)
			assert.Equal(t, tc.want, written)
			assert.Equal(t, tc.object, object)
		})
	}
}
