// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/internal/supply"
)

// checkAuth fails if a secret that an auth block names is not there. It asks
// nobody.
func checkAuth(getenv func(string) string, auth supply.Auth) error {
	var err error
	if auth.AppID != 0 {
		_, err = appKey(auth)
	} else {
		_, err = readSecret(getenv, auth.TokenEnv, auth.File)
	}
	return err
}

// appKey reads the private key of a GitHub App.
func appKey(auth supply.Auth) (*rsa.PrivateKey, error) {
	text, err := readSecret(nil, "", auth.KeyFile)
	if err != nil {
		return nil, err
	}
	key, err := parseRSAKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", auth.KeyFile, err)
	}
	return key, nil
}

// parseRSAKey reads the private key that GitHub hands out, PKCS #1 or #8 in PEM.
func parseRSAKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not a PEM file")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("not an RSA private key")
	}
	return key, nil
}

// maxSecret bounds a token.
const maxSecret = 16 << 10

// readSecret reads a variable if it is named, else a file that only its owner reads.
func readSecret(getenv func(string) string, variable, file string) (string, error) {
	if variable != "" {
		s := strings.TrimSpace(getenv(variable))
		if s == "" {
			return "", fmt.Errorf("the variable %s is empty", variable)
		}
		return s, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", withHint(fmt.Errorf("%s can be read by others", file), "chmod 600 %s", file)
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s has %d bytes, a token has fewer", file, info.Size())
	}
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}
