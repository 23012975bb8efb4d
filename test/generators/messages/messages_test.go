// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/types/dynamicpb"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
)

func TestEachFieldOfARequestIsAtItsExtremes(t *testing.T) {
	base := dynamicpb.NewMessage((&schedulerv1.CreateEnvironmentRequest{}).ProtoReflect().Descriptor())
	fields := map[string]int{}
	for _, r := range Of(base) {
		fields[r.Field]++
		assert.True(t, r.Message.IsValid())
		if !strings.HasPrefix(r.Field, "all") {
			assert.True(t, r.Message.Has(r.Message.Descriptor().Fields().Get(0)), r.Field)
		}
	}
	assert.Equal(t, len(Texts), fields["spec.name"])
	assert.Equal(t, len(Texts), fields["spec.application_stack.backend.container.image"], "however deep it is")
	assert.Equal(t, 1, fields["spec.application_stack.backend.container.environment_variables"], "a map with many keys")
	assert.Equal(t, 1, fields["all, text 0"])
	assert.False(t, base.Has(base.Descriptor().Fields().Get(0)), "the base stays as it is")
}
