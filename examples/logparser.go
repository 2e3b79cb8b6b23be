// Package logparser reads structured log lines and counts what they say.
package logparser

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Level is how serious a log line is.
type Level int

const (
	LevelDebug Level = iota
	LevelInfo
	LevelWarning
	LevelError
	LevelFatal
)

// String returns the name of the level.
func (l Level) String() string {
	switch l {
	case LevelDebug:
		return "debug"
	case LevelInfo:
		return "info"
	case LevelWarning:
		return "warning"
	case LevelError:
		return "error"
	case LevelFatal:
		return "fatal"
	default:
		return "unknown"
	}
}

// ParseLevel returns the level with the given name.
func ParseLevel(name string) (Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return LevelDebug, nil
	case "info":
		return LevelInfo, nil
	case "warning":
		return LevelWarning, nil
	case "error":
		return LevelError, nil
	case "fatal":
		return LevelFatal, nil
	default:
		return 0, fmt.Errorf("unknown level %q", name)
	}
}

// Entry is one parsed line.
type Entry struct {
	Time     time.Time
	Level    Level
	Service  string
	Message  string
	Status   int
	Duration time.Duration
}

// ErrEmptyLine is returned for a line without fields.
var ErrEmptyLine = errors.New("empty line")

// ParseLine reads one line of key=value fields, separated by tabs.
func ParseLine(line string) (Entry, error) {
	var entry Entry
	if strings.TrimSpace(line) == "" {
		return entry, ErrEmptyLine
	}
	for _, field := range strings.Split(line, "\t") {
		key, value, found := strings.Cut(field, "=")
		if !found {
			return entry, fmt.Errorf("field %q has no value", field)
		}
		var err error
		switch key {
		case "time":
			entry.Time, err = time.Parse(time.RFC3339, value)
		case "level":
			entry.Level, err = ParseLevel(value)
		case "service":
			entry.Service = value
		case "message":
			entry.Message = value
		case "status":
			entry.Status, err = strconv.Atoi(value)
		case "duration":
			entry.Duration, err = time.ParseDuration(value)
		}
		if err != nil {
			return entry, fmt.Errorf("field %s: %w", key, err)
		}
	}
	return entry, nil
}

// Summary counts entries by level, service and status.
type Summary struct {
	Total     int
	ByLevel   map[Level]int
	ByService map[string]int
	ByStatus  map[int]int
	Slowest   time.Duration
}

// NewSummary returns a summary without entries.
func NewSummary() *Summary {
	return &Summary{
		ByLevel:   make(map[Level]int),
		ByService: make(map[string]int),
		ByStatus:  make(map[int]int),
	}
}

// Add counts one entry.
func (s *Summary) Add(entry Entry) {
	s.Total++
	s.ByLevel[entry.Level]++
	s.ByService[entry.Service]++
	s.ByStatus[entry.Status]++
	if entry.Duration > s.Slowest {
		s.Slowest = entry.Duration
	}
}

// Merge adds the counts of another summary.
func (s *Summary) Merge(other *Summary) {
	s.Total += other.Total
	for level, count := range other.ByLevel {
		s.ByLevel[level] += count
	}
	for service, count := range other.ByService {
		s.ByService[service] += count
	}
	for status, count := range other.ByStatus {
		s.ByStatus[status] += count
	}
	if other.Slowest > s.Slowest {
		s.Slowest = other.Slowest
	}
}

// Services returns the names of all services, sorted.
func (s *Summary) Services() []string {
	names := make([]string, 0, len(s.ByService))
	for name := range s.ByService {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Summarize reads all lines; a line that can't be parsed ends it with its number.
func Summarize(reader io.Reader) (*Summary, error) {
	summary := NewSummary()
	scanner := bufio.NewScanner(reader)
	for number := 1; scanner.Scan(); number++ {
		entry, err := ParseLine(scanner.Text())
		if errors.Is(err, ErrEmptyLine) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		summary.Add(entry)
	}
	return summary, scanner.Err()
}
