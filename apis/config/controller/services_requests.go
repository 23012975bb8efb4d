// SPDX-License-Identifier: Apache-2.0

package controller

import "k8s.io/apimachinery/pkg/util/validation/field"

// RequestLimits limits the connections and calls of callers. Each replica counts separately.
type RequestLimits struct {
	// connections is the maximum number of open connections, from 16 to 65536. A new connection above it closes one
	// without an authenticated call in flight. Defaults to 512.
	//
	// +optional
	Connections int32 `json:"connections"`

	// calls is the maximum number of calls of authenticated callers in flight, without streams, from 1 to 65536.
	// Defaults to 400.
	//
	// +optional
	Calls int32 `json:"calls"`

	// callsPerCaller is the maximum number of these calls of one user, from 1 to 65536. Defaults to 100.
	//
	// +optional
	CallsPerCaller int32 `json:"callsPerCaller"`

	// streams is the maximum number of streaming calls of authenticated callers in flight, from 1 to 65536. Defaults to
	// 200.
	//
	// +optional
	Streams int32 `json:"streams"`

	// streamsPerCaller is the maximum number of these calls of one user, from 1 to 65536. Defaults to 20.
	//
	// +optional
	StreamsPerCaller int32 `json:"streamsPerCaller"`

	// openCalls is the maximum number of calls and streams without authentication, which are those of health, in
	// flight, from 1 to 65536. Defaults to 100.
	//
	// +optional
	OpenCalls int32 `json:"openCalls"`

	// openCallsPerAddress is the maximum number of these calls of one source address, from 1 to 65536. Defaults to 10.
	//
	// +optional
	OpenCallsPerAddress int32 `json:"openCallsPerAddress"`

	// unknownTokensPerSecond is the number of bearer tokens per second that are not cached as valid and are sent to the
	// API server for review, from 1 to 10000. The burst is twice the number. Defaults to 50.
	//
	// +optional
	UnknownTokensPerSecond int32 `json:"unknownTokensPerSecond"`

	// unknownTokensPerSecondPerAddress is the same number for one source address, from 1 to 10000. Defaults to 10.
	//
	// +optional
	UnknownTokensPerSecondPerAddress int32 `json:"unknownTokensPerSecondPerAddress"`
}

func defaultRequestLimits() RequestLimits {
	return RequestLimits{
		Connections: 512, Calls: 400, CallsPerCaller: 100, Streams: 200, StreamsPerCaller: 20, OpenCalls: 100, OpenCallsPerAddress: 10,
		UnknownTokensPerSecond: 50, UnknownTokensPerSecondPerAddress: 10,
	}
}

func (l *RequestLimits) validate(path *field.Path) field.ErrorList {
	const most = 1 << 16
	all := inRange(path.Child("connections"), l.Connections, 16, most)
	all = append(all, inRange(path.Child("calls"), l.Calls, 1, most)...)
	all = append(all, inRange(path.Child("callsPerCaller"), l.CallsPerCaller, 1, most)...)
	all = append(all, inRange(path.Child("streams"), l.Streams, 1, most)...)
	all = append(all, inRange(path.Child("streamsPerCaller"), l.StreamsPerCaller, 1, most)...)
	all = append(all, inRange(path.Child("openCalls"), l.OpenCalls, 1, most)...)
	all = append(all, inRange(path.Child("openCallsPerAddress"), l.OpenCallsPerAddress, 1, most)...)
	all = append(all, inRange(path.Child("unknownTokensPerSecond"), l.UnknownTokensPerSecond, 1, 10000)...)
	return append(all, inRange(path.Child("unknownTokensPerSecondPerAddress"), l.UnknownTokensPerSecondPerAddress, 1, 10000)...)
}
