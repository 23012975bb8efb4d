// SPDX-License-Identifier: Apache-2.0

package command

import "errors"

// ErrFailed is the error of a command that has already printed what failed.
var ErrFailed = errors.New("a check failed")
