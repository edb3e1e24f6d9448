// SPDX-License-Identifier: Apache-2.0

// Package cache keeps values that are slow to get, such as answers of a
// registry or the keys of an issuer, and renews them behind the back of those
// who ask.
//
// A [Cache] is bounded in bytes; the least recently used values go first. A
// [Policy] says how long a value is good, how long it is good enough while a
// newer one is fetched, and how long it is better than nothing while its origin
// is down. Identical misses are one load, which no caller owns: who stops
// waiting does not stop it for the others. "Not found" is remembered for a few
// seconds, so that a client cannot make the origin answer again and again.
//
// Values are shared by all who ask and must not be changed.
package cache
