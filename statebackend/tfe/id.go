// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// workspaceRef is what a request concerns: a workspace, an organization, or all if both are empty.
type workspaceRef struct{ organization, workspace string }

// String is the form in which rights, records and messages name it.
func (p workspaceRef) String() string {
	if p.workspace == "" {
		return p.organization
	}
	return p.organization + "/" + p.workspace
}

// urlKey is K: the workspaceRef in a form that is safe in URLs.
func (p workspaceRef) urlKey() string {
	return base64.RawURLEncoding.EncodeToString([]byte(p.organization + "\x00" + p.workspace))
}

// commandID is H: it identifies one command of a tool, as 26 lower-case characters of base32: 40
// bits of Unix time, 88 random ones. "" means none, as in the stable id of a workspace.
type commandID string

const (
	timeBytes      = 5
	commandIDBytes = 16
	// commandIDAhead is how far the clock of another replica may be ahead.
	commandIDAhead = time.Hour
)

func commandIDEncoding() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

func newCommandID(now time.Time) commandID {
	var b [8 + commandIDBytes - timeBytes]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.Unix()))
	rand.Read(b[8:]) // never fails
	return commandID(commandIDEncoding().EncodeToString(b[8-timeBytes:]))
}

// parseCommandID accepts only the exact form that newCommandID makes.
func parseCommandID(s string, now time.Time) (commandID, bool) {
	b, err := commandIDEncoding().DecodeString(s)
	if err != nil || len(b) != commandIDBytes || commandIDEncoding().EncodeToString(b) != s {
		return "", false
	}
	h := commandID(s)
	return h, !h.createdAt().After(now.Add(commandIDAhead))
}

// createdAt returns when the command began, to the second.
func (h commandID) createdAt() time.Time {
	b, err := commandIDEncoding().DecodeString(string(h))
	if err != nil || len(b) < timeBytes {
		return time.Time{}
	}
	var whole [8]byte
	copy(whole[8-timeBytes:], b)
	return time.Unix(int64(binary.BigEndian.Uint64(whole[:])), 0)
}

// lockID returns the id of the lock of a command, which must not be "".
func (h commandID) lockID() string { return "tfe-" + string(h) }

// lockIDOf returns the id of a request's lock: its command's, or its subject's with a stable id.
func lockIDOf(h commandID, c access.Caller) string {
	if h != "" {
		return h.lockID()
	}
	sum := sha256.Sum256([]byte(subjectOf(c)))
	return "tfs-" + hex.EncodeToString(sum[:13])
}

func (p workspaceRef) workspaceID(h commandID) string {
	if h == "" {
		return "ws-" + p.urlKey()
	}
	return "ws-" + p.urlKey() + "." + string(h)
}

// shortID returns an id for the provider hashicorp/tfe: 16 letters and digits, the first of which
// are derived from the organization, to find the workspace by. It is never a K.
func (p workspaceRef) shortID() string {
	for n := 0; ; n++ {
		id := organizationLetters(p.organization) + variables.Letters(strconv.Itoa(n)+"\x00"+p.organization+"\x00"+p.workspace, variables.IDLength-lettersOfOrganization)
		if _, ok := parseKey(id); !ok {
			return "ws-" + id
		}
	}
}

const lettersOfOrganization = 6

func organizationLetters(name string) string {
	return variables.Letters("organization\x00"+name, lettersOfOrganization)
}

var shortRE = text.Pattern(`^[0-9A-Za-z]{16}$`)

// isShort reports whether rest, an id without its prefix, has the form of [workspaceRef.shortID].
func isShort(rest string) bool {
	if !shortRE().MatchString(rest) {
		return false
	}
	_, long := parseKey(rest)
	return !long
}

func (p workspaceRef) versionID(n int64) string {
	return "sv-" + p.urlKey() + "." + strconv.FormatInt(n, 10)
}

// pendingID returns the id of a version being uploaded, by a command or, for "", by a script.
func (p workspaceRef) pendingID(serial uint64, h commandID) string {
	id := "sv-" + p.urlKey() + ".p" + strconv.FormatUint(serial, 10)
	if h == "" {
		return id
	}
	return id + "." + string(h)
}

func (p workspaceRef) outputID(n int64, name string) string {
	return "wsout-" + p.urlKey() + "." + strconv.FormatInt(n, 10) + "." + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// projectID returns the id of a project, only a label. Older ids lack the organization.
func projectID(organization, name string) string {
	if organization != "" {
		name = organization + "\x00" + name
	}
	return "prj-" + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// Bounds of the parts of ids, in bytes.
const (
	maxName      = 128 // of an organization; repositories have names of up to 255
	maxWorkspace = 255
	maxID        = 2048
)

// parseWorkspaceID undoes [workspaceRef.workspaceID]. All parsers of ids accept just one spelling.
func parseWorkspaceID(id string, now time.Time) (workspaceRef, commandID, error) {
	rest, ok := cutID(id, "ws-")
	key, tail, with := strings.Cut(rest, ".")
	p, known := parseKey(key)
	if !ok || !known {
		return workspaceRef{}, "", errNoID()
	}
	if !with {
		return p, "", nil
	}
	h, ok := parseCommandID(tail, now)
	if !ok {
		return workspaceRef{}, "", errNoID()
	}
	return p, h, nil
}

type stateVersion struct {
	workspaceRef
	n         int64     // of a stored version; 0: a version of a tool without versions
	pending   bool      // the state is being uploaded
	serial    uint64    // of the state that is being uploaded
	commandID commandID // of the command that uploads; "": a script
}

func parseVersionID(id string, now time.Time) (stateVersion, error) {
	rest, ok := cutID(id, "sv-")
	key, tail, with := strings.Cut(rest, ".")
	p, known := parseKey(key)
	if !ok || !known || !with {
		return stateVersion{}, errNoID()
	}
	v := stateVersion{workspaceRef: p}
	serial, pending := strings.CutPrefix(tail, "p")
	if !pending {
		if v.n, ok = parseNumber(tail); !ok {
			return stateVersion{}, errNoID()
		}
		return v, nil
	}
	v.pending = true
	serial, by, with := strings.Cut(serial, ".")
	n, err := strconv.ParseUint(serial, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != serial {
		return stateVersion{}, errNoID()
	}
	v.serial = n
	if with {
		if v.commandID, ok = parseCommandID(by, now); !ok {
			return stateVersion{}, errNoID()
		}
	}
	return v, nil
}

type output struct {
	workspaceRef
	n    int64
	name string
}

func parseOutputID(id string) (output, error) {
	rest, ok := cutID(id, "wsout-")
	part := strings.Split(rest, ".")
	if !ok || len(part) != 3 {
		return output{}, errNoID()
	}
	p, known := parseKey(part[0])
	n, number := parseNumber(part[1])
	name, text := parseText(part[2])
	if !known || !number || !text || name == "" {
		return output{}, errNoID()
	}
	return output{p, n, name}, nil
}

// parseProjectID returns the organization, "" if the id has none, and the name of a project.
func parseProjectID(id string) (organization, name string, err error) {
	rest, ok := cutID(id, "prj-")
	name, text := parseText(rest)
	if of, its, named := strings.Cut(name, "\x00"); named {
		if organization, name = of, its; !validOrganization(of) {
			ok = false
		}
	}
	if !ok || !text || !validProject(name) {
		return "", "", errNoID()
	}
	return organization, name, nil
}

// cutID removes the prefix of an id of bounded length.
func cutID(id, prefix string) (string, bool) {
	if len(id) > maxID {
		return "", false
	}
	return strings.CutPrefix(id, prefix)
}

func parseKey(key string) (workspaceRef, bool) {
	text, ok := parseText(key)
	organization, workspace, parted := strings.Cut(text, "\x00")
	p := workspaceRef{organization, workspace}
	return p, ok && parted && validOrganization(organization) && validWorkspace(workspace)
}

// parseText decodes base64url, only in its canonical form.
func parseText(s string) (string, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // which decoders skip
		return "", false
	}
	return string(b), true
}

func parseNumber(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// validOrganization reports whether a state can have this name.
func validOrganization(name string) bool {
	_, err := addr.Layout{}.StateRepo(name)
	return err == nil && len(name) <= maxName
}

// validWorkspace reports whether a store can have the name. New names are restricted to [newName].
func validWorkspace(name string) bool {
	return validText(name, maxWorkspace) && name != "." && name != ".."
}

// validText accepts text of bounded length that the tools can print.
func validText(s string, limit int) bool {
	return s != "" && len(s) <= limit && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// validLabel accepts labels shown to others: no characters that hide, or change the direction.
func validLabel(s string, limit int) bool {
	return validText(s, limit) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
