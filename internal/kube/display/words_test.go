// SPDX-License-Identifier: Apache-2.0

package display

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDurationsAsTheyAreWritten(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", 1500 * time.Millisecond: "1.5s",
	} {
		assert.Equal(t, want, Short(d))
	}
}
