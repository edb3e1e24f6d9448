// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// runID is the parsed id of a run, plan or apply; record is the workspace's, new at each creation.
type runID struct {
	workspaceRef
	record string
	n      int
}

// Prefixes of the ids.
const (
	runPrefix   = "run-"
	planPrefix  = "plan-"
	applyPrefix = "apply-"
	cvPrefix    = "cv-"
)

func (r runID) withPrefix(prefix string) string {
	return prefix + r.urlKey() + "." + r.record + "." + strconv.Itoa(r.n)
}

// String returns the id of the run.
func (r runID) String() string { return r.withPrefix(runPrefix) }

func prefixOf(p Phase) string {
	if p == PhaseApply {
		return applyPrefix
	}
	return planPrefix
}

func parseRunID(id, prefix string) (runID, error) {
	p, record, tail, err := parseRecordID(id, prefix)
	if err != nil {
		return runID{}, err
	}
	n, ok := parseNumber(tail)
	if !ok || n < 1 || n > maxRun {
		return runID{}, errNoID()
	}
	return runID{p, record, int(n)}, nil
}

// maxRun is above every run number.
const maxRun = 1_000_000_000

func parseRecordID(id, prefix string) (p workspaceRef, record, tail string, err error) {
	rest, ok := cutID(id, prefix)
	part := strings.Split(rest, ".")
	if !ok || len(part) != 3 || addr.CheckInstance(part[1]) != nil {
		return workspaceRef{}, "", "", errNoID()
	}
	if p, ok = parseKey(part[0]); !ok {
		return workspaceRef{}, "", "", errNoID()
	}
	return p, part[1], part[2], nil
}

// configurationID is the parsed id of a configuration version: all that is known before the upload.
type configurationID struct {
	workspaceRef
	record string
	hex    string // 16 digits: 8 of Unix time, 1 of flags, 7 at random
}

// Flags of a configuration version.
const (
	flagSpeculative = 1 << iota
	flagProvisional
)

func newConfigurationID(p workspaceRef, record string, now time.Time, speculative, provisional bool) configurationID {
	flags := 0
	if speculative {
		flags |= flagSpeculative
	}
	if provisional {
		flags |= flagProvisional
	}
	var b [4]byte
	rand.Read(b[:]) // never fails
	return configurationID{p, record, fmt.Sprintf("%08x%x%s", uint32(now.Unix()), flags, hex.EncodeToString(b[:])[1:])}
}

func (c configurationID) String() string { return cvPrefix + c.urlKey() + "." + c.record + "." + c.hex }

func parseConfigurationID(id string) (configurationID, error) {
	p, record, tail, err := parseRecordID(id, cvPrefix)
	if err != nil {
		return configurationID{}, err
	}
	c := configurationID{p, record, tail}
	b, err := hex.DecodeString(tail)
	if err != nil || len(b) != 8 || hex.EncodeToString(b) != tail || c.flagBits() > flagSpeculative|flagProvisional {
		return configurationID{}, errNoID()
	}
	return c, nil
}

func (c configurationID) flagBits() int64 { return hexDigits(c.hex[8:9]) }

func (c configurationID) isSpeculative() bool { return c.flagBits()&flagSpeculative != 0 }
func (c configurationID) isProvisional() bool { return c.flagBits()&flagProvisional != 0 }

// createdAt returns when the upload was announced, to the second.
func (c configurationID) createdAt() time.Time { return timeOfUpload(c.hex) }

func timeOfUpload(hex string) time.Time { return time.Unix(hexDigits(hex[:8]), 0) }

func hexDigits(s string) int64 {
	n, err := strconv.ParseInt(s, 16, 64)
	if err != nil {
		return 0
	}
	return n
}
