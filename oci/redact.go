// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/base64"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/text"
)

const (
	// maxSecrets bounds a session's remembered secrets: only the newest still appear in answers.
	maxSecrets = 32
	// minSecret is the shortest that is searched for; shorter ones would blank half of a message.
	minSecret = 4
)

var (
	// A word of lower-case letters alone is treated as prose.
	authHeader = text.Pattern(`\b((?i:bearer|basic)\s+)[A-Za-z0-9_~+/=-]*[A-Z0-9_~+/=][A-Za-z0-9._~+/=-]*`)
	jwt        = text.Pattern(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`)
	userinfo   = text.Pattern(`://[^/\s"@]+@`)
	headerLine = text.Pattern(`(?i)\b((?:authorization|x-registry-auth|cookie)"?\s*[:=]\s*\[?"?)(?:(?:bearer|basic)\s+)?[^\s",\]]+`)
	querySig   = text.Pattern(`(?i)([?&][a-z0-9_-]*(token|sig|signature|secret|password|credential|_state)=)[^&\s"]+`)
)

// secrets are those that a session has sent, to be kept out of errors: some registries and proxies
// echo the headers of a request that they refuse.
type secrets struct {
	mu   sync.Mutex // guards list
	list []string
}

func (s *secrets) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if len(v) >= minSecret {
			s.list = append(s.list, v)
		}
	}
	if n := len(s.list) - maxSecrets; n > 0 {
		s.list = s.list[n:]
	}
}

func (s *secrets) addCredential(c Credential) {
	s.add(c.Password, c.IdentityToken, c.RegistryToken)
	if c.Password != "" {
		s.add(base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)))
	}
}

func (s *secrets) redact(text string) string {
	text = headerLine().ReplaceAllString(text, "$1***")
	text = authHeader().ReplaceAllString(text, "$1***")
	text = jwt().ReplaceAllString(text, "***")
	text = userinfo().ReplaceAllString(text, "://***@")
	text = querySig().ReplaceAllString(text, "$1***")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.list {
		text = strings.ReplaceAll(text, v, "***")
	}
	return text
}
