// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/cli/decisions"
)

// That a scheduler has no record of a pod is known. That it does not respond, or allows nothing, leaves it unknown.
func TestRecordsThatCannotBeReadAreUnknown(t *testing.T) {
	assert.False(t, isUnread(nil))
	assert.False(t, isUnread(fmt.Errorf("%w of a scheduling attempt: decisions.record is Never", decisions.ErrNoRecord)))
	assert.True(t, isUnread(errors.New("the scheduler does not allow it")))
	assert.True(t, isUnread(context.DeadlineExceeded))
}
