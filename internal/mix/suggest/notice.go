// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"strings"
	"time"
)

// notices are how long before an interruption a provider announces it, by the beginning of the provider ID of nodes. Sources: the
// documentation of Amazon EC2 (Spot Instance interruption notices), of Azure (Spot Virtual Machines) and of Google Cloud (Spot VMs), as of
// 2026-11-30.
var notices = map[string]time.Duration{"aws://": LongestNotice, "azure://": 30 * time.Second, "gce://": 30 * time.Second}

// LongestNotice is that of Amazon EC2. It is assumed where the provider is unknown.
const LongestNotice = 120 * time.Second

// NoticeOf is how long before an interruption the provider of a node announces it.
func NoticeOf(providerID string) time.Duration {
	for prefix, notice := range notices {
		if strings.HasPrefix(providerID, prefix) {
			return notice
		}
	}
	return LongestNotice
}
