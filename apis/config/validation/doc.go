// SPDX-License-Identifier: Apache-2.0

// Package validation refuses arguments of Berth's scheduler plugins that have no meaning, each with its field and value.
package validation
