/* Test only: the functions of Windows' ICU that Qt6Core links to, and Wine 8 does not have.
 *
 * ucnv_open fails, and Qt then works without a converter. It uses ICU only for encodings that it
 * does not know itself, which Upreel never uses. */

#define FILE_ACCESS_ERROR 4 /* U_FILE_ACCESS_ERROR */

__declspec(dllexport) void *ucnv_open(const char *name, int *error)
{
    (void)name;
    *error = FILE_ACCESS_ERROR;
    return 0;
}

#define NOTHING(name) \
    __declspec(dllexport) void *name(void) { return 0; }

NOTHING(ucnv_close)
NOTHING(ucnv_reset)
NOTHING(ucnv_getName)
NOTHING(ucnv_getMaxCharSize)
NOTHING(ucnv_getToUCallBack)
NOTHING(ucnv_getFromUCallBack)
NOTHING(ucnv_setToUCallBack)
NOTHING(ucnv_setFromUCallBack)
NOTHING(ucnv_cbToUWriteUChars)
NOTHING(ucnv_cbFromUWriteUChars)
NOTHING(ucnv_toUnicode)
NOTHING(ucnv_fromUnicode)
NOTHING(ucnv_toUCountPending)
NOTHING(ucnv_fromUCountPending)
NOTHING(ucnv_getStandardName)
NOTHING(ucnv_getAvailableName)
NOTHING(ucnv_countAvailable)
NOTHING(UCNV_FROM_U_CALLBACK_SUBSTITUTE)
NOTHING(UCNV_TO_U_CALLBACK_SUBSTITUTE)
