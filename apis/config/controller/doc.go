// SPDX-License-Identifier: Apache-2.0

// Package controller holds the configuration file of berth-controller.
package controller
