package httpfront

import "strconv"

// appendDecision appends the decision as POST /v1/decide answers it.
func appendDecision(dst []byte, d *decision) []byte {
	dst = append(dst, `{"allowed":`...)
	dst = strconv.AppendBool(dst, d.allowed())
	if !d.allowed() {
		dst = append(dst, `,"status":`...)
		dst = strconv.AppendInt(dst, int64(d.status), 10)
	}
	dst = append(dst, `,"headers":{`...)
	for i, h := range d.headers {
		dst = appendComma(dst, i)
		dst = appendString(dst, h.name)
		dst = append(dst, ':')
		dst = appendString(dst, h.value)
	}
	dst = append(dst, '}')
	if d.body != nil {
		dst = append(dst, `,"body":`...)
		dst = append(dst, d.body...)
	}
	dst = append(dst, `,"effects":[`...)
	for i, effect := range d.effects {
		dst = appendComma(dst, i)
		dst = appendString(dst, effect)
	}
	dst = append(dst, `],"degraded":`...)
	dst = strconv.AppendBool(dst, d.degraded)
	dst = append(dst, `,"buckets":[`...)
	for i := range d.buckets {
		dst = appendComma(dst, i)
		dst = appendBucketState(dst, &d.buckets[i])
	}
	return append(dst, `]}`...)
}

func appendBucketState(dst []byte, b *bucketState) []byte {
	dst = append(dst, `{"bucket":`...)
	dst = appendString(dst, b.name)
	dst = append(dst, `,"allowed":`...)
	dst = strconv.AppendBool(dst, b.allowed)
	dst = append(dst, `,"limit":`...)
	dst = strconv.AppendInt(dst, b.limit, 10)
	dst = append(dst, `,"remaining":`...)
	dst = strconv.AppendInt(dst, b.remaining, 10)
	dst = append(dst, `,"retry_after":`...)
	dst = b.retryAfter.appendSeconds(dst)
	dst = append(dst, `,"reset_after":`...)
	dst = b.resetAfter.appendSeconds(dst)
	return append(dst, '}')
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}
