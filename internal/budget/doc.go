// SPDX-License-Identifier: Apache-2.0

// Package budget bounds what tenants write before Berth parses, matches, adds or keeps it.
package budget
