// SPDX-License-Identifier: Apache-2.0

package controller

import "k8s.io/apimachinery/pkg/util/validation/field"

// RequestLimits bounds what callers of the services hold at a time. Each replica counts for itself.
type RequestLimits struct {
	// connections is how many connections may be open, from 16 to 65536. A new connection beyond that closes one on which no
	// authenticated call is in flight. Default: 512.
	//
	// +optional
	Connections int32 `json:"connections"`

	// calls is how many calls of authenticated callers may be in flight, streams excluded, from 1 to 65536. Default: 400.
	//
	// +optional
	Calls int32 `json:"calls"`

	// callsPerCaller is how many of them one user may have, from 1 to 65536. Default: 100.
	//
	// +optional
	CallsPerCaller int32 `json:"callsPerCaller"`

	// streams is how many streaming calls of authenticated callers may be in flight, from 1 to 65536. Default: 200.
	//
	// +optional
	Streams int32 `json:"streams"`

	// streamsPerCaller is how many of them one user may have, from 1 to 65536. Default: 20.
	//
	// +optional
	StreamsPerCaller int32 `json:"streamsPerCaller"`

	// openCalls is how many calls and streams without authentication, which are those of health, may be in flight, from 1 to
	// 65536. Default: 100.
	//
	// +optional
	OpenCalls int32 `json:"openCalls"`

	// openCallsPerAddress is how many of them one source address may have, from 1 to 65536. Default: 10.
	//
	// +optional
	OpenCallsPerAddress int32 `json:"openCallsPerAddress"`

	// unknownTokensPerSecond is how many bearer tokens that were not valid before are sent to the API server for review, from 1
	// to 10000 a second. Twice as many are sent at once. Default: 50.
	//
	// +optional
	UnknownTokensPerSecond int32 `json:"unknownTokensPerSecond"`

	// unknownTokensPerSecondPerAddress is how many of them one source address may send, from 1 to 10000 a second. Default: 10.
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
