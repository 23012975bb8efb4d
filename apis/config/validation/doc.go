// SPDX-License-Identifier: Apache-2.0

// Package validation validates the arguments of Berth's scheduler plugins. Each error has the field and its value.
package validation
