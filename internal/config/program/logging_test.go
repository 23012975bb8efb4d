// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

func TestJSONLinesAreForLogCollectors(t *testing.T) {
	var out bytes.Buffer
	logger, err := (&Logging{format: formatJSON, Verbosity: 2}).Logger(&out)
	require.NoError(t, err)
	logger.V(2).Info("Decided", "pod", klog.KRef("shop", "web-1"))
	logger.V(3).Info("Not requested")
	logger.WithName("rebalance").Error(errors.New("gone"), "Evicted nothing")

	lines := json.NewDecoder(&out)
	var decided, failed, more map[string]any
	require.NoError(t, lines.Decode(&decided))
	require.Equal(t, "Decided", decided["msg"])
	require.Equal(t, "info", decided["level"])
	require.Equal(t, map[string]any{"name": "web-1", "namespace": "shop"}, decided["pod"])
	require.NoError(t, lines.Decode(&failed))
	require.Equal(t, "error", failed["level"])
	require.Equal(t, "gone", failed["err"])
	require.Equal(t, "rebalance", failed["logger"])
	require.Error(t, lines.Decode(&more), "V(3) is not logged at -v=2")
}

func TestTextLinesAreTheScheduler(t *testing.T) {
	var out bytes.Buffer
	logger, err := (&Logging{format: formatText, Verbosity: 2}).Logger(&out)
	require.NoError(t, err)
	logger.V(2).Info("Decided", "pod", klog.KRef("shop", "web-1"))
	logger.V(3).Info("Not requested")
	require.Regexp(t, `^I\d{4} .* "Decided" pod="shop/web-1"\n$`, out.String())
}
