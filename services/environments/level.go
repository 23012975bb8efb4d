// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"encoding/json"
	"strings"
)

// Levels of lines, as clients see them.
const (
	levelInfo  = "info"
	levelWarn  = "warn"
	levelError = "error"
	levelDebug = "debug"
)

const (
	// maxJSONLine is what is decoded of a line to find its level; words are looked for in its first maxLevelWords bytes.
	maxJSONLine   = 64 << 10
	maxLevelWords = 160
)

// levels are the words that programs have for levels, in lower case. PostgreSQL writes LOG and NOTICE of what is well.
var levels = map[string]string{
	"trace": levelDebug, "debug": levelDebug, "debug1": levelDebug, "debug2": levelDebug, "debug3": levelDebug,
	"debug4": levelDebug, "debug5": levelDebug, "dbg": levelDebug, "verbose": levelDebug, "fine": levelDebug,
	"info": levelInfo, "information": levelInfo, "informational": levelInfo, "inf": levelInfo, "notice": levelInfo, "log": levelInfo,
	"warn": levelWarn, "warning": levelWarn, "wrn": levelWarn,
	"error": levelError, "err": levelError, "eror": levelError, "fatal": levelError, "ftl": levelError, "panic": levelError,
	"critical": levelError, "crit": levelError, "severe": levelError, "alert": levelError, "emerg": levelError,
	"emergency": levelError,
}

// LevelOf returns the level of a line of a log: info, warn, error or debug. A line without one is info.
func LevelOf(line string) string {
	line = strings.TrimLeft(line, " \t")
	if strings.HasPrefix(line, "{") && len(line) <= maxJSONLine {
		if level, ok := ofJSON(line); ok {
			return level
		}
	}
	if level, ok := ofKlog(line); ok {
		return level
	}
	if len(line) > maxLevelWords {
		line = line[:maxLevelWords]
	}
	if level, ok := ofPair(line); ok {
		return level
	}
	return ofWords(line)
}

// ofJSON looks at the fields that loggers write the level into.
func ofJSON(line string) (string, bool) {
	var fields struct {
		Level, Severity, Lvl, LogLevel any
	}
	if json.Unmarshal([]byte(line), &fields) != nil {
		return "", false
	}
	for _, v := range []any{fields.Level, fields.Severity, fields.Lvl, fields.LogLevel} {
		switch v := v.(type) {
		case string:
			if level, ok := levels[strings.ToLower(v)]; ok {
				return level, true
			}
		case float64:
			return ofNumber(v), true
		}
	}
	return "", false
}

// ofNumber reads the levels of bunyan and pino, in which 30 is info, and those of zap, in which 0 is.
func ofNumber(n float64) string {
	switch {
	case n >= 50, n >= 2 && n < 10:
		return levelError
	case n >= 40, n == 1:
		return levelWarn
	case n >= 30, n == 0:
		return levelInfo
	}
	return levelDebug
}

// ofKlog reads the beginning of a line of Kubernetes: a letter and the date, I0102.
func ofKlog(line string) (string, bool) {
	const date = 5
	if len(line) < date || strings.Trim(line[1:date], "0123456789") != "" {
		return "", false
	}
	switch line[0] {
	case 'I':
		return levelInfo, true
	case 'W':
		return levelWarn, true
	case 'E', 'F':
		return levelError, true
	}
	return "", false
}

// ofPair reads level=warn, with or without quotes.
func ofPair(line string) (string, bool) {
	for _, key := range []string{"level=", "lvl=", "severity="} {
		_, value, ok := strings.Cut(line, key)
		if !ok {
			continue
		}
		value = strings.TrimPrefix(value, `"`)
		end := strings.IndexFunc(value, func(c rune) bool { return !isLetter(c) })
		if end < 0 {
			end = len(value)
		}
		if level, ok := levels[strings.ToLower(value[:end])]; ok {
			return level, true
		}
	}
	return "", false
}

// ofWords takes the first word that is a level and is written as one: in capitals, in brackets, or before a colon. In the middle
// of a sentence "error" is a word like others.
func ofWords(line string) string {
	for i := 0; i < len(line); {
		if !isLetter(rune(line[i])) {
			i++
			continue
		}
		end := i
		for end < len(line) && (isLetter(rune(line[end])) || end > i && isDigit(line[end])) {
			end++
		}
		word := line[i:end]
		level, known := levels[strings.ToLower(word)]
		if known && (word == strings.ToUpper(word) || bracketed(line, i, end) || end < len(line) && line[end] == ':') {
			return level
		}
		i = end
	}
	return levelInfo
}

func bracketed(line string, from, to int) bool {
	if from == 0 || to == len(line) {
		return false
	}
	pair := line[from-1:from] + line[to:to+1]
	return pair == "[]" || pair == "<>" || pair == "()"
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
